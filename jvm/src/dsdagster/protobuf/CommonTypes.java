package dsdagster.protobuf;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import dsdagster.registry.Unreadable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;

/** Messages that represent one SQL value: moments, dates, times of day, decimals, and scalars that may be missing. */
final class CommonTypes {
  static final String TIMESTAMP = "google.protobuf.Timestamp";
  static final String DATE = "google.type.Date";
  static final String TIME = "google.type.TimeOfDay";
  static final String DECIMAL = "confluent.type.Decimal";
  private static final Set<String> WRAPPERS =
      Set.of(
          "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value",
          "google.protobuf.UInt64Value", "google.protobuf.Int32Value", "google.protobuf.UInt32Value",
          "google.protobuf.BoolValue", "google.protobuf.StringValue", "google.protobuf.BytesValue");
  private static final StructType SECONDS = new StructType().add("seconds", "bigint").add("nanos", "bigint");
  private static final StructType DAY = new StructType().add("year", "int").add("month", "int").add("day", "int");
  private static final StructType CLOCK =
      new StructType().add("hours", "int").add("minutes", "int").add("seconds", "int").add("nanos", "int");
  private static final StructType DIGITS = new StructType().add("value", "binary").add("scale", "int");

  private CommonTypes() {}

  /** A message read as a struct, and the conversion of the struct to a value. */
  static final class Common {
    final StructType read;
    final Function<Object[], Object> made;

    private Common(StructType read, Function<Object[], Object> made) {
      this.read = read;
      this.made = made;
    }
  }

  static boolean isWrapper(Descriptor message) {
    return WRAPPERS.contains(message.getFullName());
  }

  /** The field of a wrapper. */
  static FieldDescriptor wrapped(Descriptor message) {
    return message.findFieldByNumber(1);
  }

  /** Conversion of a message to a value of a type; null if it represents no value of that type. */
  static Common of(Descriptor message, DataType wanted) {
    String name = message.getFullName();
    boolean isMoment = wanted.equals(DataTypes.TimestampType) || wanted.equals(DataTypes.TimestampNTZType);
    if (isMoment && name.equals(TIMESTAMP)) {
      return new Common(SECONDS, parts -> micros((Long) parts[0], (Long) parts[1]));
    }
    if (wanted.equals(DataTypes.DateType) && name.equals(DATE)) {
      return new Common(DAY, CommonTypes::day);
    }
    if (wanted instanceof TimeType && name.equals(TIME)) {
      return new Common(CLOCK, CommonTypes::clock);
    }
    if (wanted instanceof DecimalType && name.equals(DECIMAL)) {
      return new Common(DIGITS, parts -> decimal(parts, (DecimalType) wanted));
    }
    if (isWrapper(message) && !(wanted instanceof StructType)) {
      return new Common(new StructType().add("value", wanted), parts -> parts[0]);
    }
    return null;
  }

  private static Object micros(long seconds, long nanos) {
    return Math.addExact(Math.multiplyExact(seconds, 1_000_000L), Math.floorDiv(nanos, 1_000L));
  }

  private static Object day(Object[] parts) {
    try {
      return (int) LocalDate.of((Integer) parts[0], (Integer) parts[1], (Integer) parts[2]).toEpochDay();
    } catch (DateTimeException problem) {
      throw new Unreadable("it is not a whole date");
    }
  }

  private static Object clock(Object[] parts) {
    try {
      return LocalTime.of((Integer) parts[0], (Integer) parts[1], (Integer) parts[2], (Integer) parts[3]).toNanoOfDay();
    } catch (DateTimeException problem) {
      throw new Unreadable("it is not a time of day");
    }
  }

  private static Object decimal(Object[] parts, DecimalType wanted) {
    byte[] digits = (byte[]) parts[0];
    int scale = (Integer) parts[1];
    if (digits.length > 64 || Math.abs((long) scale) > 1_000) {
      throw new Unreadable("the number has more digits than " + wanted.sql());
    }
    return ScalarReaders.decimal(new BigDecimal(digits.length == 0 ? BigInteger.ZERO : new BigInteger(digits), scale), wanted);
  }
}
