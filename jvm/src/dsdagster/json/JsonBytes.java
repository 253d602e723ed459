package dsdagster.json;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A cursor over the bytes of a JSON record. It accepts a part of what Jackson accepts, and nothing else: a method that
 * returns false has met an invalid or an unusual text, and Jackson has to read the whole record.
 */
final class JsonBytes {
  static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  static final long EACH_BYTE = 0x0101010101010101L;
  static final long HIGH_BITS = 0x80 * EACH_BYTE;
  static final int MOST_DIGITS = 18;
  private static final int LONGEST_NUMBER = 100;
  private static final int LONGEST_STRING = 1 << 20;
  private static final int LONGEST_NAME = 10_000;
  private static final int DEEPEST = 60;
  static final byte[] NULL = {'n', 'u', 'l', 'l'};
  static final byte[] TRUE = {'t', 'r', 'u', 'e'};
  static final byte[] FALSE = {'f', 'a', 'l', 's', 'e'};

  byte[] bytes;
  int at;

  /** The last string's content, or the last number: from, to. */
  int start;

  int stop;

  /** Whether the last string has escapes. */
  boolean isEscaped;

  /** Parts of the last number: digits without sign and point, of which {@link #scale} are after the point. */
  long digits;

  int scale;
  boolean isNegative;

  /** Whether {@link #digits} has all significant digits, and there is no exponent. */
  boolean isPlain;

  void begin(byte[] record) {
    bytes = record;
    at = 0;
  }

  /** The next byte that is not white space, which is not consumed; 0 at the end. */
  byte next() {
    while (at < bytes.length) {
      byte found = bytes[at];
      if (found > ' ' || found != ' ' && found != '\n' && found != '\r' && found != '\t') {
        return found;
      }
      at++;
    }
    return 0;
  }

  /** Whether the next byte that is not white space is this one; consumes it. */
  boolean takes(char wanted) {
    boolean is = next() == wanted;
    at += is ? 1 : 0;
    return is;
  }

  /** Consumes a literal at the cursor. */
  boolean takes(byte[] literal) {
    for (int place = 0; place < literal.length; place++) {
      if (at + place >= bytes.length || bytes[at + place] != literal[place]) {
        return false;
      }
    }
    at += literal.length;
    return true;
  }

  /** The lowest bit is that of the first byte that is a quote, a backslash, below 0x20 or above 0x7f. */
  static long special(long eight) {
    long quotes = (eight ^ '"' * EACH_BYTE) - EACH_BYTE;
    long backslashes = (eight ^ '\\' * EACH_BYTE) - EACH_BYTE;
    return (eight | eight - 0x20 * EACH_BYTE | quotes | backslashes) & HIGH_BITS;
  }

  /** Reads a string whose opening quote has been consumed. */
  boolean string() {
    start = at;
    isEscaped = false;
    int place = at;
    while (true) {
      if (place + Long.BYTES <= bytes.length) {
        long found = special((long) LONGS.get(bytes, place));
        if (found == 0) {
          place += Long.BYTES;
          continue;
        }
        place += Long.numberOfTrailingZeros(found) >>> 3;
      } else if (place >= bytes.length) {
        return false;
      }
      byte one = bytes[place];
      if (one == '"') {
        stop = place;
        at = place + 1;
        return stop - start <= LONGEST_STRING;
      }
      isEscaped |= one == '\\';
      int length = one == '\\' ? escape(place) : one < 0 ? character(place) : one < ' ' ? 0 : 1;
      if (length == 0) {
        return false;
      }
      place += length;
    }
  }

  /** Length of an escape; 0 if it is not valid, or half of a pair of surrogates. */
  private int escape(int place) {
    if (place + 1 >= bytes.length) {
      return 0;
    }
    switch (bytes[place + 1]) {
      case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
        return 2;
      case 'u':
        int unit = unit(place);
        if (unit < 0 || Character.isLowSurrogate((char) unit)) {
          return 0;
        }
        if (!Character.isHighSurrogate((char) unit)) {
          return 6;
        }
        int second = unit(place + 6);
        return second >= 0 && Character.isLowSurrogate((char) second) ? 12 : 0;
      default:
        return 0;
    }
  }

  /** The number in an escape with {@code u}; negative if there is no such escape. */
  private int unit(int place) {
    if (place + 6 > bytes.length || bytes[place] != '\\' || bytes[place + 1] != 'u') {
      return -1;
    }
    int unit = 0;
    for (int digit = place + 2; digit < place + 6; digit++) {
      int value = bytes[digit] < 0 ? -1 : Character.digit((char) bytes[digit], 16);
      if (value < 0) {
        return -1;
      }
      unit = unit << 4 | value;
    }
    return unit;
  }

  /** Length of a character of several bytes; 0 if it is not valid UTF-8. */
  private int character(int place) {
    int first = bytes[place] & 0xff;
    int length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (place + length > bytes.length) {
      return 0;
    }
    for (int more = place + 1; more < place + length; more++) {
      if ((bytes[more] & 0xc0) != 0x80) {
        return 0;
      }
    }
    int second = length < 3 ? 0 : bytes[place + 1] & 0xff;
    boolean isWrong =
        first == 0xe0 && second < 0xa0
            || first == 0xed && second > 0x9f
            || first == 0xf0 && second < 0x90
            || first == 0xf4 && second > 0x8f;
    return isWrong ? 0 : length;
  }

  /** The last string's content, or the last number's text. Without escapes it shares the record's bytes. */
  UTF8String utf8() {
    return isEscaped ? unescaped() : UTF8String.fromBytes(bytes, start, stop - start);
  }

  String text() {
    return isEscaped ? unescaped().toString() : new String(bytes, start, stop - start, StandardCharsets.UTF_8);
  }

  private UTF8String unescaped() {
    byte[] made = new byte[stop - start + Long.BYTES]; // texts are copied eight bytes at a time
    int length = 0;
    int from = start;
    while (from < stop) {
      if (from + Long.BYTES <= bytes.length) {
        long eight = (long) LONGS.get(bytes, from);
        LONGS.set(made, length, eight);
        long others = eight ^ '\\' * EACH_BYTE;
        long found = others - EACH_BYTE & ~others & HIGH_BITS;
        int plain = Math.min(Long.numberOfTrailingZeros(found) >>> 3, stop - from); // 8 without a backslash
        from += plain;
        length += plain;
        if (plain == Long.BYTES || from == stop) {
          continue;
        }
      }
      byte one = bytes[from++];
      if (one != '\\') {
        made[length++] = one;
        continue;
      }
      byte kind = bytes[from++];
      switch (kind) {
        case 'b' -> made[length++] = '\b';
        case 'f' -> made[length++] = '\f';
        case 'n' -> made[length++] = '\n';
        case 'r' -> made[length++] = '\r';
        case 't' -> made[length++] = '\t';
        case 'u' -> {
          int point = unit(from - 2);
          from += 4;
          if (Character.isHighSurrogate((char) point)) {
            point = Character.toCodePoint((char) point, (char) unit(from));
            from += 6;
          }
          length = put(point, made, length);
        }
        default -> made[length++] = kind;
      }
    }
    return UTF8String.fromBytes(made, 0, length);
  }

  private static int put(int point, byte[] made, int length) {
    int bytes = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    int rest = point;
    for (int place = length + bytes - 1; place > length; place--) {
      made[place] = (byte) (0x80 | rest & 0x3f);
      rest >>= 6;
    }
    made[length] = (byte) (bytes == 1 ? rest : 0xf00 >> bytes & 0xff | rest);
    return length + bytes;
  }

  /** Reads a number at the cursor. */
  boolean number() {
    start = at;
    isEscaped = false;
    digits = 0;
    scale = 0;
    isNegative = bytes[at] == '-';
    int place = at + (isNegative ? 1 : 0);
    int first = place;
    place = digits(place);
    if (place == first || bytes[first] == '0' && place > first + 1) {
      return false;
    }
    if (place < bytes.length && bytes[place] == '.') {
      int point = place + 1;
      place = digits(point);
      scale = place - point;
      if (scale == 0) {
        return false;
      }
    }
    isPlain = significant(first, place) <= MOST_DIGITS;
    if (place < bytes.length && (bytes[place] == 'e' || bytes[place] == 'E')) {
      isPlain = false;
      int exponent = place + 1;
      exponent += exponent < bytes.length && (bytes[exponent] == '+' || bytes[exponent] == '-') ? 1 : 0;
      place = exponent;
      while (place < bytes.length && bytes[place] >= '0' && bytes[place] <= '9') {
        place++;
      }
      if (place == exponent) {
        return false;
      }
    }
    stop = place;
    at = place;
    return stop - start <= LONGEST_NUMBER;
  }

  /** Number of digits without the zeros that begin a fraction. */
  private int significant(int first, int end) {
    int all = end - first - (scale > 0 ? 1 : 0);
    for (int place = first; all > MOST_DIGITS && (bytes[place] == '0' || bytes[place] == '.'); place++) {
      all -= bytes[place] == '0' ? 1 : 0;
    }
    return all;
  }

  /** Adds digits to the number; the place after them. */
  private int digits(int from) {
    int place = from;
    while (place + Long.BYTES <= bytes.length) {
      long eight = (long) LONGS.get(bytes, place);
      int count = JsonDigits.count(eight);
      digits = JsonDigits.append(digits, eight, count);
      place += count;
      if (count < Long.BYTES) {
        return place;
      }
    }
    for (; place < bytes.length && bytes[place] >= '0' && bytes[place] <= '9'; place++) {
      digits = digits * 10 + bytes[place] - '0';
    }
    return place;
  }

  /** Whether the last number has neither a point nor an exponent, and its value is that of {@link #digits}. */
  boolean isWhole() {
    return isPlain && scale == 0;
  }

  /** {@link #digits} with the sign. */
  long signed() {
    return isNegative ? -digits : digits;
  }

  /** Reads any value to its end; afterwards {@link #start} and {@link #stop} are its bounds. */
  boolean value() {
    next();
    int begin = at;
    if (!skipped()) {
      return false;
    }
    start = begin;
    stop = at;
    isEscaped = false;
    return true;
  }

  private boolean skipped() {
    long objects = 0; // a bit for each open object or array; 1: an object
    int depth = 0;
    while (true) {
      byte first = next();
      boolean opens = first == '{' || first == '[';
      if (opens) {
        at++;
        boolean isObject = first == '{';
        if (!takes(isObject ? '}' : ']')) {
          objects = objects << 1 | (isObject ? 1 : 0);
          if (++depth > DEEPEST || isObject && !name()) {
            return false;
          }
          continue;
        }
      } else if (!scalar(first)) {
        return false;
      }
      while (true) { // after a value
        if (depth == 0) {
          return true;
        }
        boolean inObject = (objects & 1) == 1;
        if (takes(',')) {
          if (inObject && !name()) {
            return false;
          }
          break;
        }
        if (!takes(inObject ? '}' : ']')) {
          return false;
        }
        objects >>>= 1;
        depth--;
      }
    }
  }

  private boolean name() {
    return takes('"') && string() && stop - start <= LONGEST_NAME && takes(':');
  }

  private boolean scalar(byte first) {
    switch (first) {
      case '"':
        at++;
        return string();
      case 'n':
        return takes(NULL);
      case 't':
        return takes(TRUE);
      case 'f':
        return takes(FALSE);
      case 0:
        return false;
      default:
        return number();
    }
  }
}
