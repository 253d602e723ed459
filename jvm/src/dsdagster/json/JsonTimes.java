package dsdagster.json;

import com.fasterxml.jackson.core.JsonParser;
import java.io.IOException;
import java.time.LocalDate;
import java.time.Month;
import java.time.Year;

/** Times as nearly all records write them: {@code 2026-01-31T12:34:56.789Z}, with a space, without fraction or zone. */
final class JsonTimes {
  private static final int WITHOUT_FRACTION = 19;
  private static final int MICRO_DIGITS = 6;
  private static final int NOT_A_NUMBER = -1;
  private static final long SECONDS = 86_400;
  private static final long MICROS = 1_000_000;

  private JsonTimes() {}

  /** Microseconds since 1970 of the current token's text as UTC; null for a time in any other form. */
  static Long micros(JsonParser in) throws IOException {
    int length = in.getTextLength();
    if (length < WITHOUT_FRACTION) {
      return null;
    }
    char[] text = in.getTextCharacters();
    int start = in.getTextOffset();
    int end = text[start + length - 1] == 'Z' ? length - 1 : length;
    boolean separated =
        text[start + 4] == '-'
            && text[start + 7] == '-'
            && (text[start + 10] == 'T' || text[start + 10] == ' ')
            && text[start + 13] == ':'
            && text[start + 16] == ':';
    if (!separated) {
      return null;
    }
    int fraction = end == WITHOUT_FRACTION ? 0 : fraction(text, start + WITHOUT_FRACTION, start + end);
    int year = number(text, start, 4);
    int month = number(text, start + 5, 2);
    int day = number(text, start + 8, 2);
    int second = second(text, start + 11);
    if (fraction < 0 || second < 0 || year < 1 || month < 1 || month > 12) {
      return null;
    }
    if (day < 1 || day > Month.of(month).length(Year.isLeap(year))) {
      return null;
    }
    return (LocalDate.of(year, month, day).toEpochDay() * SECONDS + second) * MICROS + fraction;
  }

  /** Second of the day of {@code 12:34:56}; negative if it is not a valid time. */
  private static int second(char[] text, int at) {
    int hour = number(text, at, 2);
    int minute = number(text, at + 3, 2);
    int second = number(text, at + 6, 2);
    boolean valid = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second < 60;
    return valid ? (hour * 60 + minute) * 60 + second : NOT_A_NUMBER;
  }

  private static int fraction(char[] text, int at, int end) {
    int digits = end - at - 1;
    if (digits < 1 || digits > MICRO_DIGITS || text[at] != '.') {
      return NOT_A_NUMBER;
    }
    int value = number(text, at + 1, digits);
    for (int missing = digits; value > 0 && missing < MICRO_DIGITS; missing++) {
      value *= 10;
    }
    return value;
  }

  private static int number(char[] text, int at, int digits) {
    int value = 0;
    for (int place = at; place < at + digits; place++) {
      int digit = text[place] - '0';
      if (digit < 0 || digit > 9) {
        return NOT_A_NUMBER;
      }
      value = value * 10 + digit;
    }
    return value;
  }
}
