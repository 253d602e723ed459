package dsdagster.delta.aggregate;

import dsdagster.OperatorFault;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.LongType;

/**
 * Count and sums of one call in one group. Sums are exact: whole numbers and decimals as they are, floats as their
 * exact decimal values, so that a retraction leaves no rounding error. NaN and infinities are counted separately from
 * the sum. Whole numbers are added as longs; they are moved to the decimal sum only on overflow and when the sum is
 * read.
 */
public final class Total {
  private static final MathContext DIGITS = MathContext.DECIMAL128;
  private static final BigDecimal SMALLEST_LONG = BigDecimal.valueOf(Long.MIN_VALUE);
  private static final BigDecimal LARGEST_LONG = BigDecimal.valueOf(Long.MAX_VALUE);

  private long count;
  /** Sum of whole numbers that is not yet in {@link #sum}; most groups never need decimals. */
  private long whole;
  private BigDecimal sum = BigDecimal.ZERO;
  private BigDecimal squares = BigDecimal.ZERO;
  private long nans;
  private long highest;
  private long lowest;

  /** Adds a value that is not null {@code weight} times; a negative weight retracts it. */
  public void add(Call.Function function, Object value, long weight) {
    count += weight;
    if (function == Call.Function.COUNT) {
      return;
    }
    if (value instanceof Double || value instanceof Float) {
      double number = ((Number) value).doubleValue();
      if (Double.isNaN(number)) {
        nans += weight;
        return;
      }
      if (Double.isInfinite(number)) {
        highest += number > 0 ? weight : 0;
        lowest += number < 0 ? weight : 0;
        return;
      }
    }
    if (!function.isSpread() && isWhole(value) && addWhole(((Number) value).longValue(), weight)) {
      return;
    }
    BigDecimal number = exact(value);
    BigDecimal times = BigDecimal.valueOf(weight);
    sum = sum.add(number.multiply(times));
    if (function.isSpread()) {
      squares = squares.add(number.multiply(number).multiply(times));
    }
  }

  private static boolean isWhole(Object value) {
    return value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte;
  }

  /** Whether the number was added; false if the sum would leave the range of a long and needs decimals. */
  private boolean addWhole(long value, long weight) {
    long high = Math.multiplyHigh(value, weight);
    long product = value * weight;
    if (high != product >> 63) {
      return false;
    }
    long next = whole + product;
    if (((whole ^ next) & (product ^ next)) < 0) {
      return false;
    }
    whole = next;
    return true;
  }

  /** The sum of all values that are numbers. */
  private BigDecimal sum() {
    if (whole != 0) {
      sum = sum.add(BigDecimal.valueOf(whole));
      whole = 0;
    }
    return sum;
  }

  private static BigDecimal exact(Object value) {
    if (value instanceof BigDecimal) {
      return (BigDecimal) value;
    }
    if (value instanceof Double || value instanceof Float) {
      return new BigDecimal(((Number) value).doubleValue());
    }
    return BigDecimal.valueOf(((Number) value).longValue());
  }

  /** The result in the call's type; null without values. With a time to live the count may be negative. */
  public Object result(Call call) {
    if (call.function() == Call.Function.COUNT) {
      return Math.max(count, 0);
    }
    if (count <= 0) {
      return null;
    }
    if (nans > 0 || highest > 0 || lowest > 0) {
      return special(call);
    }
    BigDecimal number = BigDecimal.valueOf(count);
    return switch (call.function()) {
      case SUM -> typed(sum(), call.type());
      case AVG -> call.type() instanceof DecimalType type
          ? typed(sum().divide(number, type.scale(), RoundingMode.HALF_UP), type)
          : (Object) sum().divide(number, DIGITS).doubleValue();
      default -> spread(call.function(), number);
    };
  }

  private Object special(Call call) {
    boolean isSum = call.function() == Call.Function.SUM || call.function() == Call.Function.AVG;
    if (!isSum || nans > 0 || highest > 0 && lowest > 0) {
      return Double.NaN;
    }
    return highest > 0 ? Double.POSITIVE_INFINITY : Double.NEGATIVE_INFINITY;
  }

  /** Variance or deviation from exact sums: no precision is lost if the values are close to each other. */
  private Object spread(Call.Function function, BigDecimal number) {
    boolean isSample = function == Call.Function.VAR_SAMP || function == Call.Function.STDDEV_SAMP;
    if (isSample && count < 2) {
      return null;
    }
    BigDecimal divisor = isSample ? number.subtract(BigDecimal.ONE) : number;
    BigDecimal deviation = squares.multiply(number).subtract(sum.multiply(sum));
    double variance = Math.max(deviation.divide(number.multiply(divisor), DIGITS).doubleValue(), 0);
    boolean isRoot = function == Call.Function.STDDEV_POP || function == Call.Function.STDDEV_SAMP;
    return isRoot ? Math.sqrt(variance) : variance;
  }

  private static Object typed(BigDecimal value, DataType type) {
    if (type instanceof LongType) {
      if (value.compareTo(SMALLEST_LONG) < 0 || value.compareTo(LARGEST_LONG) > 0) {
        throw new OperatorFault("AGGREGATE_OVERFLOW", "a sum left the range of BIGINT");
      }
      return value.longValue();
    }
    if (type instanceof DecimalType decimal) {
      BigDecimal scaled = value.setScale(decimal.scale(), RoundingMode.HALF_UP);
      if (scaled.precision() > decimal.precision()) {
        throw new OperatorFault("AGGREGATE_OVERFLOW", "a sum left the range of " + type.sql());
      }
      return scaled;
    }
    return value.doubleValue();
  }

  public void write(DataOutput out, Call call) throws IOException {
    out.writeLong(count);
    if (call.function() == Call.Function.COUNT) {
      return;
    }
    write(out, sum());
    boolean isSpecial = nans != 0 || highest != 0 || lowest != 0;
    out.writeBoolean(isSpecial);
    if (isSpecial) {
      out.writeLong(nans);
      out.writeLong(highest);
      out.writeLong(lowest);
    }
    if (call.function().isSpread()) {
      write(out, squares);
    }
  }

  public static Total read(DataInput in, Call call) throws IOException {
    Total found = new Total();
    found.count = in.readLong();
    if (call.function() == Call.Function.COUNT) {
      return found;
    }
    found.sum = readDecimal(in);
    if (in.readBoolean()) {
      found.nans = in.readLong();
      found.highest = in.readLong();
      found.lowest = in.readLong();
    }
    if (call.function().isSpread()) {
      found.squares = readDecimal(in);
    }
    return found;
  }

  private static void write(DataOutput out, BigDecimal value) throws IOException {
    byte[] digits = value.unscaledValue().toByteArray();
    out.writeInt(value.scale());
    out.writeInt(digits.length);
    out.write(digits);
  }

  private static BigDecimal readDecimal(DataInput in) throws IOException {
    int scale = in.readInt();
    byte[] digits = new byte[in.readInt()];
    in.readFully(digits);
    return new BigDecimal(new BigInteger(digits), scale);
  }
}
