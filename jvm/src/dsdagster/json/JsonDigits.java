package dsdagster.json;

/** Decimal digits in eight bytes at once, as {@link JsonBytes#LONGS} reads them: the first byte is the lowest. */
final class JsonDigits {
  private static final long UPPER_HALVES = 0xf0 * JsonBytes.EACH_BYTE;
  private static final long LOWER_HALVES = 0x0f * JsonBytes.EACH_BYTE;
  private static final long ZEROS = '0' * JsonBytes.EACH_BYTE;
  private static final long ABOVE_NINE = 6 * JsonBytes.EACH_BYTE;
  private static final int[] POWERS = {1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000};

  private JsonDigits() {}

  /** How many bytes are digits before the first one that is not. A carry of a byte changes bytes after it alone. */
  static int count(long eight) {
    long others = eight & UPPER_HALVES ^ ZEROS | eight + ABOVE_NINE & UPPER_HALVES ^ ZEROS;
    return Long.numberOfTrailingZeros(others) >>> 3;
  }

  /** {@code number} with the first {@code count} digits of the eight bytes after its own. */
  static long append(long number, long eight, int count) {
    return count == 0 ? number : number * POWERS[count] + value(eight << Long.SIZE - Byte.SIZE * count);
  }

  /** The number of eight digits, in pairs, fours and at last all; a byte of zero is a digit of zero. */
  private static long value(long eight) {
    long pairs = (eight & LOWER_HALVES) * (10 << 8 | 1) >>> 8;
    long fours = (pairs & 0x00ff00ff00ff00ffL) * (100 << 16 | 1) >>> 16;
    return (fours & 0x0000ffff0000ffffL) * (10_000L << 32 | 1) >>> 32;
  }
}
