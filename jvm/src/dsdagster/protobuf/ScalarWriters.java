package dsdagster.protobuf;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalTime;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Writes Spark's scalar values as Protobuf's; whether the types fit was checked when the query was compiled. */
final class ScalarWriters {
  private static final long MICROS = 1_000_000L;
  private static final long UNSIGNED_INT = 0xFFFF_FFFFL;

  private ScalarWriters() {}

  /** The writer of a scalar field. */
  static FieldWriter of(FieldDescriptor field, DataType type) {
    int number = field.getNumber();
    switch (field.getType()) {
      case BOOL:
        return (value, out) -> out.writeBool(number, (Boolean) value);
      case FLOAT:
        return (value, out) -> out.writeFloat(number, ((Number) value).floatValue());
      case DOUBLE:
        return (value, out) -> out.writeDouble(number, ((Number) value).doubleValue());
      case STRING:
        return (value, out) -> out.writeByteArray(number, ((UTF8String) value).getBytes()); // encoded as its bytes
      case BYTES:
        return (value, out) -> out.writeByteArray(number, (byte[]) value);
      case ENUM:
        return symbol(field);
      default:
        return whole(field, type instanceof DecimalType);
    }
  }

  private static FieldWriter whole(FieldDescriptor field, boolean isDecimal) {
    int number = field.getNumber();
    switch (field.getType()) {
      case INT32:
        return (value, out) -> out.writeInt32(number, ((Number) value).intValue());
      case SINT32:
        return (value, out) -> out.writeSInt32(number, ((Number) value).intValue());
      case SFIXED32:
        return (value, out) -> out.writeSFixed32(number, ((Number) value).intValue());
      case UINT32:
        return (value, out) -> out.writeUInt32(number, (int) unsigned(value, UNSIGNED_INT));
      case FIXED32:
        return (value, out) -> out.writeFixed32(number, (int) unsigned(value, UNSIGNED_INT));
      case INT64:
        return (value, out) -> out.writeInt64(number, ((Number) value).longValue());
      case SINT64:
        return (value, out) -> out.writeSInt64(number, ((Number) value).longValue());
      case SFIXED64:
        return (value, out) -> out.writeSFixed64(number, ((Number) value).longValue());
      case UINT64:
        return (value, out) -> out.writeUInt64(number, isDecimal ? wide(value) : unsigned(value, Long.MAX_VALUE));
      case FIXED64:
        return (value, out) -> out.writeFixed64(number, isDecimal ? wide(value) : unsigned(value, Long.MAX_VALUE));
      default:
        throw new IllegalArgumentException("no scalar: " + field.getFullName());
    }
  }

  private static long unsigned(Object value, long most) {
    long number = ((Number) value).longValue();
    if (number < 0 || number > most) {
      throw new Unreadable("is outside of the numbers its field holds");
    }
    return number;
  }

  /** An unsigned whole number of up to 64 bits. */
  private static long wide(Object value) {
    java.math.BigInteger number = ((Decimal) value).toJavaBigDecimal().toBigInteger();
    if (number.signum() < 0 || number.bitLength() > Long.SIZE) {
      throw new Unreadable("is outside of the numbers its field holds");
    }
    return number.longValue();
  }

  private static FieldWriter symbol(FieldDescriptor field) {
    return (value, out) -> {
      String text = value.toString();
      EnumValueDescriptor found = field.getEnumType().findValueByName(text);
      if (found == null) {
        throw new Unreadable("is none of the values of " + field.getEnumType().getFullName());
      }
      out.writeEnum(field.getNumber(), found.getNumber());
    };
  }

  /** The writer of a message that represents one value: its fields, without the message around them. */
  static FieldWriter common(Descriptor message, DataType type) {
    switch (message.getFullName()) {
      case CommonTypes.TIMESTAMP:
        return (value, out) -> {
          long micros = (Long) value;
          out.writeInt64(1, Math.floorDiv(micros, MICROS));
          out.writeInt32(2, (int) Math.floorMod(micros, MICROS) * 1_000);
        };
      case CommonTypes.DATE:
        return (value, out) -> {
          LocalDate day = LocalDate.ofEpochDay((Integer) value);
          parts(out, day.getYear(), day.getMonthValue(), day.getDayOfMonth());
        };
      case CommonTypes.TIME:
        return (value, out) -> {
          LocalTime time = LocalTime.ofNanoOfDay((Long) value);
          parts(out, time.getHour(), time.getMinute(), time.getSecond(), time.getNano());
        };
      case CommonTypes.DECIMAL:
        return ScalarWriters::decimal;
      default:
        throw new IllegalArgumentException(message.getFullName() + " cannot hold " + type.sql());
    }
  }

  private static void parts(CodedOutputStream out, int... numbers) throws IOException {
    for (int index = 0; index < numbers.length; index++) {
      out.writeInt32(index + 1, numbers[index]);
    }
  }

  /** Writes a decimal: its digits as a whole number, its precision, its scale. */
  private static void decimal(Object value, CodedOutputStream out) throws IOException {
    BigDecimal number = ((Decimal) value).toJavaBigDecimal();
    out.writeByteArray(1, number.unscaledValue().toByteArray());
    out.writeUInt32(2, number.precision());
    out.writeInt32(3, number.scale());
  }
}
