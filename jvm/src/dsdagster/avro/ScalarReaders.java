package dsdagster.avro;

import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Avro's primitive and logical types as Spark holds them.
 *
 * <p>Rules: Avro's own promotions (int to long, float, double; long to float, double; float to double; bytes to string
 * and back), an enum or UUID as text, a whole number as DECIMAL. Unlike in Avro's resolution, the logical types of both
 * sides count: milliseconds are never read as microseconds.
 */
final class ScalarReaders {
  private static final long NANOS_PER_MICRO = 1_000L;
  private static final long MICROS_PER_MILLI = 1_000L;
  private static final Map<DataType, Function<Schema, ValueReader>> BY_TYPE = new HashMap<>();

  static {
    BY_TYPE.put(DataTypes.BooleanType, written -> is(written, Schema.Type.BOOLEAN) ? BinaryDecoder::readBoolean : null);
    BY_TYPE.put(DataTypes.ByteType, written -> small(written, Byte.MIN_VALUE, Byte.MAX_VALUE, Integer::byteValue));
    BY_TYPE.put(DataTypes.ShortType, written -> small(written, Short.MIN_VALUE, Short.MAX_VALUE, Integer::shortValue));
    BY_TYPE.put(DataTypes.IntegerType, written -> is(written, Schema.Type.INT) ? BinaryDecoder::readInt : null);
    BY_TYPE.put(DataTypes.LongType, ScalarReaders::whole);
    BY_TYPE.put(DataTypes.FloatType, ScalarReaders::single);
    BY_TYPE.put(DataTypes.DoubleType, ScalarReaders::twice);
    BY_TYPE.put(DataTypes.StringType, ScalarReaders::text);
    BY_TYPE.put(DataTypes.BinaryType, ScalarReaders::binary);
    BY_TYPE.put(DataTypes.DateType, ScalarReaders::day);
    BY_TYPE.put(DataTypes.TimestampType, ScalarReaders::moment);
    BY_TYPE.put(DataTypes.TimestampNTZType, ScalarReaders::moment);
  }

  private ScalarReaders() {}

  /** The reader of a type; null if the written schema cannot be read as it. */
  static ValueReader of(Schema written, DataType wanted) {
    if (wanted instanceof DecimalType) {
      return decimal(written, (DecimalType) wanted);
    }
    if (wanted instanceof TimeType) {
      return timeOfDay(written);
    }
    Function<Schema, ValueReader> found = BY_TYPE.get(wanted);
    return found == null ? null : found.apply(written);
  }

  /** The bytes of a value. Their length is checked against the remaining bytes before memory is allocated. */
  static byte[] bytes(BinaryDecoder in) throws IOException {
    return fixed(in, in.readLong());
  }

  private static byte[] fixed(BinaryDecoder in, long length) throws IOException {
    if (length < 0 || length > in.inputStream().available()) {
      throw new Unreadable("the record ends too early");
    }
    byte[] read = new byte[(int) length];
    in.readFixed(read);
    return read;
  }

  private static boolean is(Schema written, Schema.Type type) {
    return written.getType() == type;
  }

  private static ValueReader small(Schema written, int least, int most, Function<Integer, Object> narrowed) {
    if (!is(written, Schema.Type.INT)) {
      return null;
    }
    return in -> {
      int read = in.readInt();
      if (read < least || read > most) {
        throw new Unreadable("the number is too large");
      }
      return narrowed.apply(read);
    };
  }

  private static ValueReader whole(Schema written) {
    if (is(written, Schema.Type.INT)) {
      return in -> (long) in.readInt();
    }
    return is(written, Schema.Type.LONG) ? BinaryDecoder::readLong : null;
  }

  private static ValueReader single(Schema written) {
    switch (written.getType()) {
      case INT:
        return in -> (float) in.readInt();
      case LONG:
        return in -> (float) in.readLong();
      case FLOAT:
        return BinaryDecoder::readFloat;
      default:
        return null;
    }
  }

  private static ValueReader twice(Schema written) {
    switch (written.getType()) {
      case INT:
        return in -> (double) in.readInt();
      case LONG:
        return in -> (double) in.readLong();
      case FLOAT:
        return in -> (double) in.readFloat();
      case DOUBLE:
        return BinaryDecoder::readDouble;
      default:
        return null;
    }
  }

  private static ValueReader text(Schema written) {
    if (written.getLogicalType() instanceof LogicalTypes.Decimal) {
      return null;
    }
    switch (written.getType()) {
      case STRING:
      case BYTES:
        return in -> UTF8String.fromBytes(bytes(in));
      case ENUM:
        UTF8String[] symbols = written.getEnumSymbols().stream().map(UTF8String::fromString).toArray(UTF8String[]::new);
        return in -> symbols[in.readEnum()];
      case FIXED:
        return isUuid(written) ? in -> uuid(fixed(in, 16)) : null;
      default:
        return null;
    }
  }

  private static boolean isUuid(Schema written) {
    LogicalType logical = written.getLogicalType();
    return written.getFixedSize() == 16 && logical != null && logical.getName().equals("uuid");
  }

  private static UTF8String uuid(byte[] read) {
    java.nio.ByteBuffer halves = java.nio.ByteBuffer.wrap(read);
    return UTF8String.fromString(new java.util.UUID(halves.getLong(), halves.getLong()).toString());
  }

  private static ValueReader binary(Schema written) {
    if (written.getLogicalType() instanceof LogicalTypes.Decimal) {
      return null;
    }
    switch (written.getType()) {
      case STRING:
      case BYTES:
        return ScalarReaders::bytes;
      case FIXED:
        int size = written.getFixedSize();
        return in -> fixed(in, size);
      default:
        return null;
    }
  }

  private static ValueReader day(Schema written) {
    return is(written, Schema.Type.INT) && written.getLogicalType() instanceof LogicalTypes.Date
        ? BinaryDecoder::readInt
        : null;
  }

  private static ValueReader timeOfDay(Schema written) {
    LogicalType logical = written.getLogicalType();
    if (logical instanceof LogicalTypes.TimeMillis) {
      return in -> in.readInt() * MICROS_PER_MILLI * NANOS_PER_MICRO;
    }
    return logical instanceof LogicalTypes.TimeMicros ? in -> in.readLong() * NANOS_PER_MICRO : null;
  }

  private static ValueReader moment(Schema written) {
    LogicalType logical = written.getLogicalType();
    String unit = logical == null ? "" : logical.getName().replaceFirst("^local-", "");
    switch (unit) {
      case "timestamp-millis":
        return in -> Math.multiplyExact(in.readLong(), MICROS_PER_MILLI);
      case "timestamp-micros":
        return BinaryDecoder::readLong;
      case "timestamp-nanos":
        return in -> Math.floorDiv(in.readLong(), NANOS_PER_MICRO);
      default:
        return null;
    }
  }

  private static ValueReader decimal(Schema written, DecimalType wanted) {
    LogicalType logical = written.getLogicalType();
    if (logical instanceof LogicalTypes.Decimal) {
      int scale = ((LogicalTypes.Decimal) logical).getScale();
      int size = is(written, Schema.Type.FIXED) ? written.getFixedSize() : -1;
      return in -> {
        byte[] digits = size < 0 ? bytes(in) : fixed(in, size);
        return decimal(new BigDecimal(new BigInteger(digits), scale), wanted);
      };
    }
    if (is(written, Schema.Type.INT) && logical == null) {
      return in -> decimal(BigDecimal.valueOf(in.readInt()), wanted);
    }
    return is(written, Schema.Type.LONG) && logical == null
        ? in -> decimal(BigDecimal.valueOf(in.readLong()), wanted)
        : null;
  }

  private static Decimal decimal(BigDecimal read, DecimalType wanted) {
    BigDecimal scaled = read.setScale(wanted.scale(), RoundingMode.HALF_UP);
    if (scaled.compareTo(read) != 0 || scaled.precision() > wanted.precision()) {
      throw new Unreadable("the number has more digits than " + wanted.sql());
    }
    return Decimal.apply(scaled, wanted.precision(), wanted.scale());
  }
}
