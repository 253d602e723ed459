package dsdagster.protobuf;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.HashMap;
import java.util.Map;
import java.util.function.LongFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Protobuf's scalar types as Spark holds them.
 *
 * <p>Rules: a whole number is read as any number type, with a check if it may be too large; float as double; bytes as
 * string and back; an enum as the name of its value (as in Protobuf's JSON the number as text if it has no name), or
 * as a number.
 */
final class ScalarReaders {
  private static final Map<DataType, LongFunction<Object>> WHOLE = new HashMap<>();

  static {
    WHOLE.put(DataTypes.ByteType, number -> (byte) within(number, Byte.MIN_VALUE, Byte.MAX_VALUE));
    WHOLE.put(DataTypes.ShortType, number -> (short) within(number, Short.MIN_VALUE, Short.MAX_VALUE));
    WHOLE.put(DataTypes.IntegerType, number -> (int) within(number, Integer.MIN_VALUE, Integer.MAX_VALUE));
    WHOLE.put(DataTypes.LongType, number -> number);
    WHOLE.put(DataTypes.FloatType, number -> (float) number);
    WHOLE.put(DataTypes.DoubleType, number -> (double) number);
  }

  private ScalarReaders() {}

  private interface Whole {
    long read(CodedInputStream in) throws IOException;
  }

  /** The reader of a scalar field; null if the field cannot be read as the type. */
  static FieldReader of(FieldDescriptor field, DataType wanted) {
    switch (field.getType()) {
      case BOOL:
        return wanted.equals(DataTypes.BooleanType) ? CodedInputStream::readBool : null;
      case FLOAT:
        return wanted.equals(DataTypes.FloatType)
            ? CodedInputStream::readFloat
            : wanted.equals(DataTypes.DoubleType) ? in -> (double) in.readFloat() : null;
      case DOUBLE:
        return wanted.equals(DataTypes.DoubleType) ? CodedInputStream::readDouble : null;
      case STRING:
      case BYTES:
        return text(wanted);
      case ENUM:
        return symbol(field, wanted);
      case UINT64:
        return unsigned(CodedInputStream::readUInt64, wanted);
      case FIXED64:
        return unsigned(CodedInputStream::readFixed64, wanted);
      default:
        Whole whole = whole(field.getType());
        return whole == null ? null : number(whole, wanted);
    }
  }

  private static Whole whole(FieldDescriptor.Type type) {
    switch (type) {
      case INT32:
        return CodedInputStream::readInt32;
      case SINT32:
        return CodedInputStream::readSInt32;
      case SFIXED32:
        return CodedInputStream::readSFixed32;
      case UINT32:
        return in -> Integer.toUnsignedLong(in.readUInt32());
      case FIXED32:
        return in -> Integer.toUnsignedLong(in.readFixed32());
      case INT64:
        return CodedInputStream::readInt64;
      case SINT64:
        return CodedInputStream::readSInt64;
      case SFIXED64:
        return CodedInputStream::readSFixed64;
      default:
        return null;
    }
  }

  private static FieldReader number(Whole whole, DataType wanted) {
    if (wanted instanceof DecimalType) {
      return in -> decimal(BigDecimal.valueOf(whole.read(in)), (DecimalType) wanted);
    }
    LongFunction<Object> made = WHOLE.get(wanted);
    return made == null ? null : in -> made.apply(whole.read(in));
  }

  private static FieldReader unsigned(Whole whole, DataType wanted) {
    if (wanted instanceof DecimalType) {
      return in -> decimal(new BigDecimal(Long.toUnsignedString(whole.read(in))), (DecimalType) wanted);
    }
    LongFunction<Object> made = WHOLE.get(wanted);
    return made == null ? null : in -> made.apply(within(whole.read(in), 0, Long.MAX_VALUE));
  }

  private static long within(long number, long least, long most) {
    if (number < least || number > most) {
      throw new Unreadable("the number is too large");
    }
    return number;
  }

  private static FieldReader text(DataType wanted) {
    if (wanted.equals(DataTypes.StringType)) {
      return in -> UTF8String.fromBytes(in.readByteArray());
    }
    return wanted.equals(DataTypes.BinaryType) ? CodedInputStream::readByteArray : null;
  }

  private static FieldReader symbol(FieldDescriptor field, DataType wanted) {
    if (!wanted.equals(DataTypes.StringType)) {
      return number(CodedInputStream::readEnum, wanted);
    }
    Map<Integer, UTF8String> names = new HashMap<>();
    for (EnumValueDescriptor value : field.getEnumType().getValues()) {
      names.putIfAbsent(value.getNumber(), UTF8String.fromString(value.getName()));
    }
    return in -> {
      int number = in.readEnum();
      UTF8String name = names.get(number);
      return name != null ? name : UTF8String.fromString(Integer.toString(number));
    };
  }

  static Decimal decimal(BigDecimal read, DecimalType wanted) {
    BigDecimal scaled = read.setScale(wanted.scale(), RoundingMode.HALF_UP);
    if (scaled.compareTo(read) != 0 || scaled.precision() > wanted.precision()) {
      throw new Unreadable("the number has more digits than " + wanted.sql());
    }
    return Decimal.apply(scaled, wanted.precision(), wanted.scale());
  }
}
