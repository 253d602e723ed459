package dsdagster.scalar;

import dsdagster.Expressions;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.util.function.Predicate;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The text of a FLOAT or a DOUBLE: the shortest that reads back as the same number, and of several the nearest one, with
 * at least two digits. Java writes so from version 19 on; earlier versions give some numbers more digits.
 */
public final class FloatTexts implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final boolean IS_SHORTEST = Runtime.version().feature() >= 19;

  /** No two texts of so many digits are the same number, so one that reads back is the shortest. */
  private static final int SAFE_DIGITS_OF_FLOAT = 6;

  private static final int SAFE_DIGITS_OF_DOUBLE = 15;

  private FloatTexts() {}

  /** {@link #ofFloat(float)}. */
  public static Column ofFloat(Column value) {
    return Expressions.call(new FloatTexts(), "ofFloat", DataTypes.StringType, true, value);
  }

  /** {@link #ofDouble(double)}. */
  public static Column ofDouble(Column value) {
    return Expressions.call(new FloatTexts(), "ofDouble", DataTypes.StringType, true, value);
  }

  public UTF8String ofFloat(float value) {
    String text = Float.toString(value);
    boolean isNormal = value == 0 || Math.abs(value) >= Float.MIN_NORMAL;
    if (IS_SHORTEST || !Float.isFinite(value) || isNormal && digits(text) <= SAFE_DIGITS_OF_FLOAT) {
      return UTF8String.fromString(text);
    }
    return UTF8String.fromString(shortest(new BigDecimal(value), digits(text), part -> part.floatValue() == value));
  }

  public UTF8String ofDouble(double value) {
    String text = Double.toString(value);
    boolean isNormal = value == 0 || Math.abs(value) >= Double.MIN_NORMAL;
    if (IS_SHORTEST || !Double.isFinite(value) || isNormal && digits(text) <= SAFE_DIGITS_OF_DOUBLE) {
      return UTF8String.fromString(text);
    }
    return UTF8String.fromString(shortest(new BigDecimal(value), digits(text), part -> part.doubleValue() == value));
  }

  /** Digits before the exponent. */
  private static int digits(String text) {
    int count = 0;
    for (int place = 0; place < text.length() && text.charAt(place) != 'E'; place++) {
      count += Character.isDigit(text.charAt(place)) ? 1 : 0;
    }
    return count;
  }

  /** {@code most}: with so many digits some text reads back. */
  private static String shortest(BigDecimal exact, int most, Predicate<BigDecimal> readsBack) {
    BigDecimal best = exact;
    for (int digits = Math.max(most, 2); digits >= 2; digits--) {
      BigDecimal nearest = nearest(exact, digits, readsBack);
      if (nearest == null) {
        break;
      }
      best = nearest;
    }
    return text(best.stripTrailingZeros());
  }

  private static BigDecimal nearest(BigDecimal exact, int digits, Predicate<BigDecimal> readsBack) {
    BigDecimal down = exact.round(new MathContext(digits, RoundingMode.DOWN));
    BigDecimal up = exact.round(new MathContext(digits, RoundingMode.UP));
    boolean hasDown = readsBack.test(down);
    if (hasDown && readsBack.test(up)) {
      return exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
    }
    return hasDown ? down : readsBack.test(up) ? up : null;
  }

  /** As {@link Double#toString(double)} places the point. */
  private static String text(BigDecimal number) {
    int exponent = number.precision() - number.scale() - 1;
    if (exponent >= -3 && exponent < 7) {
      String plain = number.toPlainString();
      return plain.indexOf('.') < 0 ? plain + ".0" : plain;
    }
    String unscaled = number.unscaledValue().abs().toString();
    String rest = unscaled.length() > 1 ? unscaled.substring(1) : "0";
    return (number.signum() < 0 ? "-" : "") + unscaled.charAt(0) + "." + rest + "E" + exponent;
  }

  @Override
  public String toString() {
    return "float text";
  }
}
