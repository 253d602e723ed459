package dsdagster.avro;

import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.io.Encoder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.unsafe.types.UTF8String;

/** Makes writers of a column from its type and its registered schema, once per task. */
final class Writers {
  private static final long MICROS_PER_MILLI = 1_000L;
  private static final long NANOS_PER_MICRO = 1_000L;
  private static final long NANOS_PER_MILLI = 1_000_000L;

  private Writers() {}

  /** The writer of a value. The schema was made for the type, so a schema that does not fit is our bug. */
  static ValueWriter of(Schema schema, DataType type) {
    if (schema.getType() == Schema.Type.UNION) {
      return union(schema, type);
    }
    ValueWriter made = known(schema, type);
    return (value, out) -> {
      if (value == null) {
        throw new Unreadable("is NULL");
      }
      made.write(value, out);
    };
  }

  private static ValueWriter union(Schema schema, DataType type) {
    List<Schema> parts = schema.getTypes();
    int nothing = parts.get(0).getType() == Schema.Type.NULL ? 0 : 1;
    int something = 1 - nothing;
    ValueWriter made = known(parts.get(something), type);
    return (value, out) -> {
      out.writeIndex(value == null ? nothing : something);
      if (value != null) {
        made.write(value, out);
      }
    };
  }

  private static ValueWriter known(Schema schema, DataType type) {
    if (type instanceof StructType) {
      ValueWriter record = record(schema, (StructType) type);
      return record;
    }
    if (type instanceof ArrayType) {
      return array(schema, (ArrayType) type);
    }
    if (type instanceof MapType) {
      return map(schema, (MapType) type);
    }
    ValueWriter made = type instanceof DecimalType ? decimal(schema) : scalar(schema, type);
    if (made == null) {
      throw new IllegalArgumentException(Readers.shown(schema) + " cannot hold " + type.sql());
    }
    return made;
  }

  private static ValueWriter scalar(Schema schema, DataType type) {
    switch (schema.getType()) {
      case BOOLEAN:
        return (value, out) -> out.writeBoolean((Boolean) value);
      case INT:
        return type instanceof TimeType
            ? (value, out) -> out.writeInt((int) ((Long) value / NANOS_PER_MILLI))
            : (value, out) -> out.writeInt(((Number) value).intValue());
      case LONG:
        return whole(schema, type);
      case FLOAT:
        return (value, out) -> out.writeFloat((Float) value);
      case DOUBLE:
        return (value, out) -> out.writeDouble((Double) value);
      case STRING:
        return (value, out) -> out.writeBytes(((UTF8String) value).getBytes()); // a text is its UTF-8 bytes
      case ENUM:
        return symbol(schema);
      case BYTES:
        return (value, out) -> out.writeBytes((byte[]) value);
      case FIXED:
        return type instanceof StringType ? uuid() : fixed(schema);
      default:
        return null;
    }
  }

  private static ValueWriter whole(Schema schema, DataType type) {
    LogicalType logical = schema.getLogicalType();
    if (type instanceof TimeType) {
      return (value, out) -> out.writeLong((Long) value / NANOS_PER_MICRO);
    }
    boolean isMoment = type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType);
    if (isMoment && logical != null && logical.getName().endsWith("-millis")) {
      return (value, out) -> out.writeLong(Math.floorDiv((Long) value, MICROS_PER_MILLI));
    }
    if (isMoment && logical != null && logical.getName().endsWith("-nanos")) {
      return (value, out) -> out.writeLong(Math.multiplyExact((Long) value, NANOS_PER_MICRO));
    }
    return (value, out) -> out.writeLong((Long) value);
  }

  private static ValueWriter symbol(Schema schema) {
    return (value, out) -> {
      String text = value.toString();
      if (!schema.hasEnumSymbol(text)) {
        throw new Unreadable("is none of the symbols of " + schema.getName());
      }
      out.writeEnum(schema.getEnumOrdinal(text));
    };
  }

  private static ValueWriter fixed(Schema schema) {
    int size = schema.getFixedSize();
    return (value, out) -> {
      byte[] bytes = (byte[]) value;
      if (bytes.length != size) {
        throw new Unreadable("has not the " + size + " bytes of " + schema.getName());
      }
      out.writeFixed(bytes);
    };
  }

  /** A UUID's text as its sixteen bytes. All 36 characters are required, since Java's parser accepts shorter parts. */
  private static ValueWriter uuid() {
    return (value, out) -> {
      String text = value.toString().toLowerCase(Locale.ROOT);
      UUID read;
      try {
        read = UUID.fromString(text);
      } catch (IllegalArgumentException other) {
        throw new Unreadable("is not a UUID");
      }
      if (!read.toString().equals(text)) {
        throw new Unreadable("is not a UUID");
      }
      long low = read.getLeastSignificantBits();
      out.writeFixed(ByteBuffer.allocate(16).putLong(read.getMostSignificantBits()).putLong(low).array());
    };
  }

  private static ValueWriter decimal(Schema schema) {
    if (!(schema.getLogicalType() instanceof LogicalTypes.Decimal)) {
      return null;
    }
    int scale = ((LogicalTypes.Decimal) schema.getLogicalType()).getScale();
    boolean isFixed = schema.getType() == Schema.Type.FIXED;
    return (value, out) -> {
      BigDecimal number = ((Decimal) value).toJavaBigDecimal().setScale(scale, RoundingMode.UNNECESSARY);
      byte[] digits = number.unscaledValue().toByteArray();
      if (isFixed) {
        out.writeFixed(padded(digits, schema.getFixedSize()));
      } else {
        out.writeBytes(digits);
      }
    };
  }

  private static byte[] padded(byte[] digits, int size) {
    if (digits.length > size) {
      throw new Unreadable("has more digits than its schema holds");
    }
    byte[] made = new byte[size];
    Arrays.fill(made, (byte) (digits[0] < 0 ? -1 : 0));
    System.arraycopy(digits, 0, made, size - digits.length, digits.length);
    return made;
  }

  /** The writer of a struct as a record; fields are matched by name. */
  static ValueWriter record(Schema schema, StructType type) {
    List<Schema.Field> fields = schema.getFields();
    int[] places = new int[fields.size()];
    ValueWriter[] writers = new ValueWriter[fields.size()];
    DataType[] types = new DataType[fields.size()];
    for (int index = 0; index < places.length; index++) {
      places[index] = type.fieldIndex(fields.get(index).name());
      types[index] = type.fields()[places[index]].dataType();
      writers[index] = of(fields.get(index).schema(), types[index]);
    }
    return (value, out) -> {
      InternalRow row = (InternalRow) value;
      for (int index = 0; index < places.length; index++) {
        try {
          Object part = row.isNullAt(places[index]) ? null : row.get(places[index], types[index]);
          writers[index].write(part, out);
        } catch (Unreadable problem) {
          throw problem.inside(fields.get(index).name());
        }
      }
    };
  }

  private static ValueWriter array(Schema schema, ArrayType type) {
    ValueWriter element = of(schema.getElementType(), type.elementType());
    return (value, out) -> {
      out.writeArrayStart();
      items((ArrayData) value, type.elementType(), element, null, out);
      out.writeArrayEnd();
    };
  }

  private static ValueWriter map(Schema schema, MapType type) {
    ValueWriter element = of(schema.getValueType(), type.valueType());
    return (value, out) -> {
      MapData pairs = (MapData) value;
      out.writeMapStart();
      items(pairs.valueArray(), type.valueType(), element, pairs.keyArray(), out);
      out.writeMapEnd();
    };
  }

  private static void items(ArrayData values, DataType type, ValueWriter element, ArrayData keys, Encoder out)
      throws IOException {
    int count = values.numElements();
    out.setItemCount(count);
    for (int index = 0; index < count; index++) {
      out.startItem();
      if (keys != null) {
        out.writeBytes(keys.getUTF8String(index).getBytes());
      }
      element.write(values.isNullAt(index) ? null : values.get(index, type), out);
    }
  }
}
