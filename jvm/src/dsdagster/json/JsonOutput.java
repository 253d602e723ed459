package dsdagster.json;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** JSON text that grows, as bytes of UTF-8. Not thread-safe. */
final class JsonOutput {
  private static final int FIRST_BYTES = 512;
  private static final int MOST_KEPT_BYTES = 1 << 20;
  private static final int LONGEST_ESCAPE = 6;
  private static final int LONGEST_LONG = 20;
  private static final int CHUNK = 4096;
  private static final int LONGEST_ARRAY = Integer.MAX_VALUE - 8;
  private static final byte[] HEX = ascii("0123456789ABCDEF");
  private static final byte[] NULL = ascii("null");
  private static final byte[] TRUE = ascii("true");
  private static final byte[] FALSE = ascii("false");
  private static final byte[] LEAST = ascii(Long.toString(Long.MIN_VALUE));

  /** The letter of an escape, or {@code u}; 0 for a character that needs no escape. */
  private static final byte[] ESCAPES = new byte[128];

  private static final byte[] PAIRS = new byte[200];

  static {
    Arrays.fill(ESCAPES, 0, ' ', (byte) 'u');
    String escaped = "\"\\\b\f\n\r\t";
    String letters = "\"\\bfnrt";
    for (int at = 0; at < escaped.length(); at++) {
      ESCAPES[escaped.charAt(at)] = (byte) letters.charAt(at);
    }
    for (int pair = 0; pair < 100; pair++) {
      PAIRS[2 * pair] = (byte) ('0' + pair / 10);
      PAIRS[2 * pair + 1] = (byte) ('0' + pair % 10);
    }
  }

  private byte[] bytes = new byte[FIRST_BYTES];
  private int size;

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }

  /** The text; the next one begins empty. */
  byte[] take() {
    byte[] made = Arrays.copyOf(bytes, size);
    clear();
    return made;
  }

  void clear() {
    size = 0;
    if (bytes.length > MOST_KEPT_BYTES) {
      bytes = new byte[FIRST_BYTES];
    }
  }

  private void reserve(int more) {
    if (bytes.length - size < more) {
      int doubled = (int) Math.min(2L * size, LONGEST_ARRAY);
      bytes = Arrays.copyOf(bytes, Math.max(Math.addExact(size, more), doubled));
    }
  }

  void raw(char ascii) {
    reserve(1);
    bytes[size++] = (byte) ascii;
  }

  void raw(byte[] text) {
    raw(text, 0, text.length);
  }

  void raw(byte[] text, int from, int length) {
    reserve(length);
    System.arraycopy(text, from, bytes, size, length);
    size += length;
  }

  /** ASCII, without quotes. */
  @SuppressWarnings("deprecation") // each character is one byte
  void raw(String ascii) {
    reserve(ascii.length());
    ascii.getBytes(0, ascii.length(), bytes, size);
    size += ascii.length();
  }

  void nothing() {
    raw(NULL);
  }

  void truth(boolean value) {
    raw(value ? TRUE : FALSE);
  }

  void number(long value) {
    if (value == Long.MIN_VALUE) {
      raw(LEAST);
      return;
    }
    reserve(LONGEST_LONG);
    long rest = Math.abs(value);
    if (value < 0) {
      bytes[size++] = '-';
    }
    int end = size + digits(rest);
    size = end;
    while (rest >= 10) {
      int pair = 2 * (int) (rest % 100);
      rest /= 100;
      bytes[--end] = PAIRS[pair + 1];
      bytes[--end] = PAIRS[pair];
    }
    if (rest > 0 || value == 0) {
      bytes[--end] = (byte) ('0' + rest);
    }
  }

  private static int digits(long value) {
    int digits = 1;
    for (long power = 10; digits < 19 && value >= power; power *= 10) {
      digits++;
    }
    return digits;
  }

  /** The lowest digits of a number that is not negative, with zeros in front. */
  void padded(int number, int places) {
    reserve(places);
    int rest = number;
    for (int place = size + places - 1; place >= size; place--) {
      bytes[place] = (byte) ('0' + rest % 10);
      rest /= 10;
    }
    size += places;
  }

  /** A text in quotes. */
  void string(String text) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    raw('"');
    escaped(utf8, 0, utf8.length, true);
    raw('"');
  }

  /** A text in quotes. Bytes that are not valid UTF-8 (a cast from binary may give them) become U+FFFD. */
  void string(UTF8String text) {
    int length = text.numBytes();
    byte[] utf8;
    int from = 0;
    if (text.getBaseObject() instanceof byte[] base) {
      utf8 = base;
      from = (int) (text.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
    } else {
      utf8 = text.getBytes();
    }
    raw('"');
    int begin = size;
    if (!escaped(utf8, from, length, false)) {
      size = begin;
      if (!text.isValid()) {
        utf8 = text.toString().getBytes(StandardCharsets.UTF_8);
        from = 0;
        length = utf8.length;
      }
      escaped(utf8, from, length, true);
    }
    raw('"');
  }

  /** Writes a text with escapes; false for a text that is not ASCII, unless it is known to be valid. */
  private boolean escaped(byte[] text, int from, int length, boolean isValid) {
    int end = from + length;
    for (int begin = from; begin < end; begin += CHUNK) {
      if (!escapedChunk(text, begin, Math.min(end, begin + CHUNK), isValid)) {
        return false;
      }
    }
    return true;
  }

  private boolean escapedChunk(byte[] text, int from, int end, boolean isValid) {
    reserve(LONGEST_ESCAPE * (end - from) + Long.BYTES);
    byte[] to = bytes;
    long ignored = isValid ? JsonBytes.HIGH_BITS : 0;
    int at = from;
    int place = size;
    while (at < end) {
      if (end - at >= Long.BYTES) {
        long eight = (long) JsonBytes.LONGS.get(text, at);
        JsonBytes.LONGS.set(to, place, eight);
        int plain = Long.numberOfTrailingZeros(JsonBytes.special(eight) & ~(eight & ignored)) >>> 3;
        place += plain;
        at += plain;
        if (plain == Long.BYTES) {
          continue;
        }
      }
      byte one = text[at++];
      byte escape = one < 0 ? 0 : ESCAPES[one];
      if (escape == 0) {
        if (one < 0 && !isValid) {
          return false;
        }
        to[place++] = one;
        continue;
      }
      to[place++] = '\\';
      to[place++] = escape;
      if (escape == 'u') {
        to[place++] = '0';
        to[place++] = '0';
        to[place++] = HEX[one >> 4];
        to[place++] = HEX[one & 0xf];
      }
    }
    size = place;
    return true;
  }
}
