package dsdagster.scalar;

import dsdagster.Expressions;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.RoundingMode;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/**
 * ROUND and TRUNCATE to a number of digits that may be a column, which Spark's own functions do not support. Floats are
 * rounded by their shortest decimal text; decimals keep their type.
 */
public final class Digits implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Lower bound of the number of digits: no number has more than 400 digits before the point. */
  private static final int FEWEST = -400;

  private final RoundingMode mode;
  private final int precision;
  private final int scale;

  private Digits(RoundingMode mode, int precision, int scale) {
    this.mode = mode;
    this.precision = precision;
    this.scale = scale;
  }

  /**
   * The value rounded to a number of digits after the point; null for a decimal that does not fit its type.
   *
   * @param value DOUBLE, FLOAT or DECIMAL
   * @param digits INTEGER; negative for digits before the point
   * @param mode HALF_UP or DOWN
   * @param type type of the value, as JSON
   */
  public static Column column(Column value, Column digits, String mode, String type) {
    DataType of = DataType.fromJson(type);
    RoundingMode how = RoundingMode.valueOf(mode);
    if (of instanceof DecimalType decimal) {
      return Expressions.call(new Digits(how, decimal.precision(), decimal.scale()), "ofDecimal", of, true, value, digits);
    }
    String method = of.equals(DataTypes.DoubleType) ? "ofDouble" : "ofFloat";
    return Expressions.call(new Digits(how, 0, 0), method, of, true, value, digits);
  }

  /** A DECIMAL with the opposite sign. Spark's own negation rounds to 34 digits. */
  public static Column negated(Column value, String type) {
    DecimalType of = (DecimalType) DataType.fromJson(type);
    return Expressions.call(new Digits(RoundingMode.UNNECESSARY, of.precision(), of.scale()), "negate", of, true, value);
  }

  public Decimal negate(Decimal value) {
    return Decimal.apply(value.toJavaBigDecimal().negate(), precision, scale);
  }

  public double ofDouble(double value, int digits) {
    return Double.isFinite(value) ? digits(BigDecimal.valueOf(value), digits).doubleValue() : value;
  }

  public float ofFloat(float value, int digits) {
    return Float.isFinite(value) ? digits(new BigDecimal(Float.toString(value)), digits).floatValue() : value;
  }

  public Decimal ofDecimal(Decimal value, int digits) {
    BigDecimal made = digits(value.toJavaBigDecimal(), digits).setScale(scale);
    return made.precision() > precision ? null : Decimal.apply(made, precision, scale);
  }

  /** Rounds. More digits than the value has change nothing, and are not computed since they would only cost memory. */
  private BigDecimal digits(BigDecimal value, int digits) {
    return digits >= value.scale() ? value : value.setScale(Math.max(digits, FEWEST), mode);
  }

  @Override
  public String toString() {
    return "digits";
  }
}
