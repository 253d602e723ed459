package dsdagster.json;

import java.time.LocalDate;
import java.time.Month;
import java.time.Year;

/**
 * Times as nearly all records write them: {@code 2026-01-31T12:34:56.789Z}, with a space, without fraction or zone. For
 * one task.
 */
final class JsonTimes {
  private static final int WITHOUT_FRACTION = 19;
  private static final int MICRO_DIGITS = 6;
  private static final int NOT_A_NUMBER = -1;
  private static final long SECONDS = 86_400;
  private static final long MICROS = 1_000_000;
  private static final int[] POWERS = {1_000_000, 100_000, 10_000, 1_000, 100, 10, 1};

  /** The last date: its first eight bytes, the other two, and the day since 1970. */
  private long knownMonth;

  private int knownDay;
  private long known;

  /** Microseconds since 1970 of a text as UTC; null for a time in any other form. */
  Long micros(byte[] text, int start, int length) {
    if (length < WITHOUT_FRACTION) {
      return null;
    }
    int end = text[start + length - 1] == 'Z' ? length - 1 : length;
    boolean separated =
        (text[start + 10] == 'T' || text[start + 10] == ' ') && text[start + 13] == ':' && text[start + 16] == ':';
    if (!separated || !isDate(text, start)) {
      return null;
    }
    int fraction = end == WITHOUT_FRACTION ? 0 : fraction(text, start + WITHOUT_FRACTION, start + end);
    int second = second(text, start + 11);
    return fraction < 0 || second < 0 ? null : (known * SECONDS + second) * MICROS + fraction;
  }

  /** Whether a text begins with a valid date; it is known then. Records in a row mostly have the same date. */
  private boolean isDate(byte[] text, int start) {
    long month = (long) JsonBytes.LONGS.get(text, start);
    int days = two(text, start + 8);
    if (month == knownMonth && days == knownDay) {
      return true;
    }
    if (text[start + 4] != '-' || text[start + 7] != '-') {
      return false;
    }
    int century = two(text, start);
    int year = two(text, start + 2);
    int months = two(text, start + 5);
    if (century < 0 || year < 0 || century + year == 0 || months < 1 || months > 12) {
      return false;
    }
    year += 100 * century;
    if (days < 1 || days > Month.of(months).length(Year.isLeap(year))) {
      return false;
    }
    known = LocalDate.of(year, months, days).toEpochDay();
    knownMonth = month;
    knownDay = days;
    return true;
  }

  /** Second of the day of {@code 12:34:56}; negative if it is not a valid time. */
  private static int second(byte[] text, int at) {
    int hour = two(text, at);
    int minute = two(text, at + 3);
    int second = two(text, at + 6);
    boolean valid = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second < 60;
    return valid ? (hour * 60 + minute) * 60 + second : NOT_A_NUMBER;
  }

  private static int fraction(byte[] text, int at, int end) {
    int digits = end - at - 1;
    if (digits < 1 || digits > MICRO_DIGITS || text[at] != '.') {
      return NOT_A_NUMBER;
    }
    int value = 0;
    for (int place = at + 1; place < end; place++) {
      int digit = text[place] - '0';
      if (digit < 0 || digit > 9) {
        return NOT_A_NUMBER;
      }
      value = value * 10 + digit;
    }
    return value * POWERS[digits];
  }

  /** A number of two digits; negative if they are not digits. */
  private static int two(byte[] text, int at) {
    int tens = text[at] - '0';
    int ones = text[at + 1] - '0';
    return (tens | 9 - tens | ones | 9 - ones) < 0 ? NOT_A_NUMBER : 10 * tens + ones;
  }
}
