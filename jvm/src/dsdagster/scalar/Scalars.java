package dsdagster.scalar;

import dsdagster.Expressions;
import dsdagster.OperatorFault;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TimeZone;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Scalar functions that Spark computes in another way than the dialect means them. */
public final class Scalars implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int KEPT_PATTERNS = 64;
  private static final ThreadLocal<Map<String, SimpleDateFormat>> FORMATS = ThreadLocal.withInitial(HashMap::new);

  private Scalars() {}

  /** {@link #toMillis}. */
  public static Column millis(Column text, Column pattern) {
    return Expressions.call(new Scalars(), "toMillis", DataTypes.LongType, true, text, pattern);
  }

  /** {@link #cutDouble} or, of a FLOAT, {@link #cutFloat}. */
  public static Column truncate(Column value, Column digits, boolean wide) {
    return wide
        ? Expressions.call(new Scalars(), "cutDouble", DataTypes.DoubleType, true, value, digits)
        : Expressions.call(new Scalars(), "cutFloat", DataTypes.FloatType, true, value, digits);
  }

  /**
   * Milliseconds since 1970 of a text in UTC; null when it does not begin with a time of the pattern.
   *
   * <p>As {@link SimpleDateFormat} reads, which Flink uses here: what stands behind the pattern is not looked at.
   * Unlike there a day that does not exist (30 February) is no time.
   */
  public Long toMillis(UTF8String text, UTF8String pattern) {
    Date read = format(pattern.toString()).parse(text.toString(), new ParsePosition(0));
    return read == null ? null : read.getTime();
  }

  /** The number with so many digits behind the point, the others cut off; by its shortest text, as it is written. */
  public double cutDouble(double value, int digits) {
    return Double.isFinite(value) ? cut(BigDecimal.valueOf(value), digits).doubleValue() : value;
  }

  /** The same of a FLOAT. */
  public float cutFloat(float value, int digits) {
    return Float.isFinite(value) ? cut(new BigDecimal(Float.toString(value)), digits).floatValue() : value;
  }

  private static BigDecimal cut(BigDecimal value, int digits) {
    return value.setScale(digits, RoundingMode.DOWN);
  }

  private static SimpleDateFormat format(String pattern) {
    Map<String, SimpleDateFormat> formats = FORMATS.get();
    SimpleDateFormat known = formats.get(pattern);
    if (known != null) {
      return known;
    }
    if (formats.size() >= KEPT_PATTERNS) {
      formats.clear(); // patterns that are data
    }
    SimpleDateFormat made = made(pattern);
    formats.put(pattern, made);
    return made;
  }

  private static SimpleDateFormat made(String pattern) {
    try {
      SimpleDateFormat made = new SimpleDateFormat(pattern, Locale.US);
      made.setTimeZone(TimeZone.getTimeZone("UTC"));
      made.setLenient(false);
      return made;
    } catch (IllegalArgumentException refused) {
      throw new OperatorFault("PATTERN_INVALID", "{\"reason\": \"a letter of it is not one of SimpleDateFormat's\"}");
    }
  }

  @Override
  public String toString() {
    return "scalars";
  }
}
