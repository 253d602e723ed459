package dsdagster.json;

import java.math.BigInteger;

/**
 * The double nearest to a decimal number: one or two multiplications with a power of five of 128 bits, by the method of
 * Eisel and Lemire ("Number Parsing at a Gigabyte per Second").
 */
final class JsonDoubles {
  private static final int LEAST = -64;
  private static final int MOST = 32;
  private static final int ROUNDED_UP = -27; // and above: reciprocals of powers with at most 64 bits
  private static final int WORD = 64;
  private static final int WORDS = 2 * WORD;
  private static final int FRACTION = 52;
  private static final int BIAS = 1023;
  private static final int INFINITE = 0x7ff;
  private static final long UNSURE = -1L >>> FRACTION + 3;
  private static final long[] HIGH = new long[MOST - LEAST + 1];
  private static final long[] LOW = new long[MOST - LEAST + 1];

  static {
    BigInteger five = BigInteger.valueOf(5);
    for (int power = LEAST; power <= MOST; power++) {
      BigInteger exact = five.pow(Math.abs(power));
      BigInteger bits = exact;
      if (power < 0) {
        int size = exact.bitLength();
        int shift = power < ROUNDED_UP ? 2 * size + WORDS : size + WORDS - 1;
        bits = BigInteger.ONE.shiftLeft(shift).divide(exact).add(BigInteger.ONE);
      }
      int excess = bits.bitLength() - WORDS;
      bits = excess > 0 ? bits.shiftRight(excess) : bits.shiftLeft(-excess);
      HIGH[power - LEAST] = bits.shiftRight(WORD).longValue();
      LOW[power - LEAST] = bits.longValue();
    }
  }

  private JsonDoubles() {}

  /** {@code digits} (above zero) times ten to the power of minus {@code scale}; NaN if this method cannot tell. */
  static double of(long digits, int scale) {
    int power = -scale;
    if (power < LEAST || power > MOST) {
      return Double.NaN;
    }
    int zeros = Long.numberOfLeadingZeros(digits);
    long shifted = digits << zeros;
    long high = high(shifted, HIGH[power - LEAST]);
    long low = shifted * HIGH[power - LEAST];
    if ((high & UNSURE) == UNSURE) {
      long more = high(shifted, LOW[power - LEAST]);
      low += more;
      high += Long.compareUnsigned(low, more) < 0 ? 1 : 0;
    }
    int upper = (int) (high >>> WORD - 1);
    int shift = upper + WORD - FRACTION - 3;
    long fraction = high >>> shift;
    int exponent = (152_170 + 65_536) * power >> 16;
    exponent += WORD - 1 + upper - zeros + BIAS;
    if (exponent <= 0 || low == -1L) {
      return Double.NaN;
    }
    if (Long.compareUnsigned(low, 1) <= 0 && power >= -4 && (fraction & 3) == 1 && fraction << shift == high) {
      fraction &= ~1L; // in the middle of two doubles: to the even one
    }
    fraction = fraction + (fraction & 1) >>> 1;
    if (fraction >= 2L << FRACTION) {
      fraction = 1L << FRACTION;
      exponent++;
    }
    return exponent >= INFINITE
        ? Double.NaN
        : Double.longBitsToDouble(fraction & (1L << FRACTION) - 1 | (long) exponent << FRACTION);
  }

  /** The upper half of the product of two unsigned numbers. */
  private static long high(long one, long other) {
    return Math.multiplyHigh(one, other) + (one >> WORD - 1 & other) + (other >> WORD - 1 & one);
  }
}
