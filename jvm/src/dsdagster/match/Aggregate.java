package dsdagster.match;

import dsdagster.OperatorFault;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.TypeUtils$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StructType;
import scala.math.Ordering;

/**
 * An aggregate that is carried from row to row. States are immutable, so that a search that backtracks finds its former
 * state; null is the state without a value.
 *
 * <p>Rule: values that are null do not count; values are Spark's internal ones.
 */
final class Aggregate implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final StructType SUM =
      new StructType()
          .add("count", DataTypes.LongType)
          .add("whole", DataTypes.LongType)
          .add("floating", DataTypes.DoubleType)
          .add("scale", DataTypes.IntegerType)
          .add("digits", DataTypes.BinaryType);

  private final Value value;
  private final DataType argument;
  private transient Ordering<Object> ordering;

  Aggregate(Value value, DataType argument) {
    this.value = value;
    this.argument = argument;
  }

  private record Sum(long count, long whole, double floating, BigDecimal exact) {}

  /** Type of {@link #packed}. */
  DataType stateType() {
    return switch (value.function()) {
      case COUNT -> DataTypes.LongType;
      case MIN, MAX -> argument;
      default -> SUM;
    };
  }

  /** The state as a value of Spark's. */
  Object packed(Object state) {
    if (!(state instanceof Sum sum)) {
      return state;
    }
    byte[] digits = sum.exact().unscaledValue().toByteArray();
    return new GenericInternalRow(new Object[] {sum.count(), sum.whole(), sum.floating(), sum.exact().scale(), digits});
  }

  /** The inverse of {@link #packed}. */
  Object unpacked(Object packed) {
    if (stateType() != SUM) {
      return packed;
    }
    InternalRow sum = (InternalRow) packed;
    BigDecimal exact = new BigDecimal(new BigInteger(sum.getBinary(4)), sum.getInt(3));
    return new Sum(sum.getLong(0), sum.getLong(1), sum.getDouble(2), exact);
  }

  /** The state after one more value. */
  Object add(Object state, Object next) {
    if (next == null) {
      return state;
    }
    return switch (value.function()) {
      case COUNT -> state == null ? 1L : (Long) state + 1;
      case MIN -> state == null || ordering().compare(next, state) < 0 ? next : state;
      case MAX -> state == null || ordering().compare(next, state) > 0 ? next : state;
      default -> sum((Sum) state, next);
    };
  }

  private Sum sum(Sum before, Object next) {
    Sum state = before == null ? new Sum(0, 0, 0, BigDecimal.ZERO) : before;
    long count = state.count() + 1;
    if (next instanceof Decimal decimal) {
      return new Sum(count, 0, 0, state.exact().add(decimal.toJavaBigDecimal()));
    }
    if (next instanceof Double number) {
      return new Sum(count, 0, state.floating() + number, BigDecimal.ZERO);
    }
    try {
      return new Sum(count, Math.addExact(state.whole(), (Long) next), 0, BigDecimal.ZERO);
    } catch (ArithmeticException overflow) {
      throw new OperatorFault("AGGREGATE_OVERFLOW", "a sum left the range of BIGINT", overflow);
    }
  }

  /** The result of a state. */
  Object result(Object state) {
    return switch (value.function()) {
      case COUNT -> state == null ? 0L : state;
      case SUM -> state == null ? null : total((Sum) state);
      case AVG -> state == null ? null : mean((Sum) state);
      default -> state;
    };
  }

  private Object total(Sum sum) {
    if (value.type() instanceof LongType) {
      return sum.whole();
    }
    return value.type() instanceof DoubleType ? (Object) sum.floating() : typed(sum.exact());
  }

  private Object mean(Sum sum) {
    if (value.type() instanceof DecimalType type) {
      return typed(sum.exact().divide(BigDecimal.valueOf(sum.count()), type.scale(), RoundingMode.HALF_UP));
    }
    return sum.floating() / sum.count();
  }

  private Decimal typed(BigDecimal number) {
    DecimalType type = (DecimalType) value.type();
    BigDecimal scaled = number.setScale(type.scale(), RoundingMode.HALF_UP);
    if (scaled.precision() > type.precision()) {
      throw new OperatorFault("AGGREGATE_OVERFLOW", "a sum left the range of " + type.sql());
    }
    return Decimal.apply(new scala.math.BigDecimal(scaled), type.precision(), type.scale());
  }

  private Ordering<Object> ordering() {
    if (ordering == null) {
      ordering = TypeUtils$.MODULE$.getInterpretedOrdering(argument);
    }
    return ordering;
  }
}
