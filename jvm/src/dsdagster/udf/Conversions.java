package dsdagster.udf;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;

/** Conversions between Spark's values of a row and Java's values. */
final class Conversions {
  private static final Map<DataType, Class<?>> BOXED =
      Map.ofEntries(
          Map.entry(DataTypes.BooleanType, Boolean.class),
          Map.entry(DataTypes.ByteType, Byte.class),
          Map.entry(DataTypes.ShortType, Short.class),
          Map.entry(DataTypes.IntegerType, Integer.class),
          Map.entry(DataTypes.LongType, Long.class),
          Map.entry(DataTypes.FloatType, Float.class),
          Map.entry(DataTypes.DoubleType, Double.class),
          Map.entry(DataTypes.BinaryType, byte[].class),
          Map.entry(DataTypes.DateType, LocalDate.class),
          Map.entry(DataTypes.TimestampNTZType, LocalDateTime.class),
          Map.entry(DataTypes.TimestampType, Instant.class));
  private static final Map<Class<?>, Class<?>> PRIMITIVE =
      Map.of(
          Boolean.class, boolean.class, Byte.class, byte.class, Short.class, short.class, Integer.class, int.class,
          Long.class, long.class, Float.class, float.class, Double.class, double.class);

  private Conversions() {}

  /** The Java class for the values of a type. */
  static Class<?> classOf(DataType type) {
    if (type instanceof StringType) {
      return String.class;
    }
    return type instanceof DecimalType ? BigDecimal.class : BOXED.get(type);
  }

  /** Whether a parameter or a result of that class can have the type's values. */
  static boolean fits(Class<?> declared, DataType type) {
    Class<?> wanted = classOf(type);
    return wanted != null && (declared.isAssignableFrom(wanted) || declared == PRIMITIVE.get(wanted));
  }

  static Object read(InternalRow row, int column, DataType type) {
    if (row.isNullAt(column)) {
      return null;
    }
    Object value = row.get(column, type);
    if (value instanceof UTF8String) {
      return value.toString();
    }
    if (value instanceof Decimal) {
      return ((Decimal) value).toJavaBigDecimal();
    }
    if (type.equals(DataTypes.DateType)) {
      return LocalDate.ofEpochDay((Integer) value);
    }
    if (type.equals(DataTypes.TimestampType)) {
      return DateTimeUtils.microsToInstant((Long) value);
    }
    return type.equals(DataTypes.TimestampNTZType) ? DateTimeUtils.microsToLocalDateTime((Long) value) : value;
  }

  /** Spark's value for a value of Java; null for a decimal that does not fit. */
  static Object write(Object value, DataType type) {
    if (value instanceof String) {
      return UTF8String.fromString((String) value);
    }
    if (value instanceof BigDecimal) {
      DecimalType wanted = (DecimalType) type;
      Decimal made = Decimal.apply((BigDecimal) value);
      return made.toPrecision(
          wanted.precision(), wanted.scale(), Decimal.ROUND_HALF_UP(), false, null);
    }
    if (value instanceof LocalDate) {
      return Math.toIntExact(((LocalDate) value).toEpochDay());
    }
    if (value instanceof Instant) {
      return DateTimeUtils.instantToMicros((Instant) value);
    }
    return value instanceof LocalDateTime ? (Object) DateTimeUtils.localDateTimeToMicros((LocalDateTime) value) : value;
  }
}
