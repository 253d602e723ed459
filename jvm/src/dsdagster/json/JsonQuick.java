package dsdagster.json;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Readers of JSON values straight from a record's bytes: nearly all records of nearly all topics. Their results are
 * those of {@link JsonReaders}, which read everything else, also every bad record: here it is {@link
 * JsonReaders#WRONG}.
 */
final class JsonQuick {
  private static final Object WRONG = JsonReaders.WRONG;
  private static final long EXACT_DOUBLE = 1L << 53;
  private static final int REMEMBERED = 256;
  private static final int LONGEST_NAME = 1_000;
  private static final long[] POWERS = new long[JsonBytes.MOST_DIGITS + 1];

  static {
    POWERS[0] = 1;
    for (int power = 1; power < POWERS.length; power++) {
      POWERS[power] = POWERS[power - 1] * 10;
    }
  }

  private JsonQuick() {}

  /** Reads the value at the cursor, which is not null, to its end. */
  interface Reader {
    Object read(JsonBytes in);
  }

  /** Reads a number that the cursor has passed; null: by the rules for its text. */
  private interface Numbers {
    Object read(JsonBytes in);
  }

  private static Reader of(DataType type) {
    if (type instanceof ArrayType array) {
      return new Elements(of(array.elementType()));
    }
    if (type instanceof MapType map) {
      return new Entries(JsonScalars.of(map.keyType()), of(map.valueType()));
    }
    if (type instanceof StructType struct) {
      return new Struct(struct);
    }
    if (type instanceof StringType) {
      return JsonQuick::text;
    }
    JsonScalars.Scalar rules = JsonScalars.of(type);
    boolean isMoment = type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType);
    return isMoment ? new Moment(rules, new JsonTimes()) : new Value(rules, numbers(type));
  }

  private static Numbers numbers(DataType type) {
    if (type instanceof DecimalType decimal) {
      return decimal.precision() <= JsonBytes.MOST_DIGITS ? in -> decimal(in, decimal) : in -> null;
    }
    if (type.equals(DataTypes.LongType)) {
      return in -> in.isWhole() ? (Object) in.signed() : null;
    }
    if (type.equals(DataTypes.IntegerType)) {
      return in -> in.isWhole() && in.signed() == (int) in.signed() ? (Object) (int) in.signed() : null;
    }
    return type.equals(DataTypes.DoubleType) ? JsonQuick::floating : in -> null;
  }

  /** Zero is left to the rules: it may be negative, or a number that is too small. */
  private static Object floating(JsonBytes in) {
    if (!in.isPlain || in.digits == 0 || in.scale == 0 && in.digits >= EXACT_DOUBLE) {
      return null;
    }
    double value = in.scale == 0 ? in.digits : JsonDoubles.of(in.digits, in.scale);
    return Double.isNaN(value) ? null : (Object) (in.isNegative ? -value : value);
  }

  /** A number with no more digits after the point than the type has; null for other numbers. */
  private static Object decimal(JsonBytes in, DecimalType type) {
    int missing = type.scale() - in.scale;
    if (!in.isPlain || missing < 0 || in.digits >= POWERS[type.precision() - missing]) {
      return null;
    }
    return Decimal.apply(in.signed() * POWERS[missing], type.precision(), type.scale());
  }

  /** Any value as text: the content of a string, the original bytes of every other value. */
  private static Object text(JsonBytes in) {
    if (in.takes('"')) {
      return in.string() ? in.utf8() : WRONG;
    }
    return in.value() ? in.utf8() : WRONG;
  }

  /** The value at the cursor, which may be null. */
  private static Object read(Reader reader, JsonBytes in) {
    return in.next() != 'n' ? reader.read(in) : in.takes(JsonBytes.NULL) ? null : WRONG;
  }

  private record Value(JsonScalars.Scalar rules, Numbers numbers) implements Reader {
    @Override
    public Object read(JsonBytes in) {
      switch (in.next()) {
        case '"':
          in.at++;
          return in.string() ? rules.ofText(in.text()) : WRONG;
        case 't':
          return in.takes(JsonBytes.TRUE) ? rules.ofTruth(true) : WRONG;
        case 'f':
          return in.takes(JsonBytes.FALSE) ? rules.ofTruth(false) : WRONG;
        case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
          if (!in.number()) {
            return WRONG;
          }
          Object value = numbers.read(in);
          return value != null ? value : rules.ofNumber(in.text());
        default:
          return WRONG;
      }
    }
  }

  private record Moment(JsonScalars.Scalar rules, JsonTimes times) implements Reader {
    @Override
    public Object read(JsonBytes in) {
      if (!in.takes('"') || !in.string()) {
        return WRONG;
      }
      Long micros = in.isEscaped ? null : times.micros(in.bytes, in.start, in.stop - in.start);
      return micros != null ? micros : rules.ofText(in.text());
    }
  }

  private record Elements(Reader element) implements Reader {
    @Override
    public Object read(JsonBytes in) {
      if (!in.takes('[')) {
        return WRONG;
      }
      List<Object> found = new ArrayList<>();
      if (in.takes(']')) {
        return new GenericArrayData(found.toArray());
      }
      do {
        Object value = JsonQuick.read(element, in);
        if (value == WRONG) {
          return WRONG;
        }
        found.add(value);
      } while (in.takes(','));
      return in.takes(']') ? new GenericArrayData(found.toArray()) : WRONG;
    }
  }

  private record Entries(JsonScalars.Scalar key, Reader value) implements Reader {
    @Override
    public Object read(JsonBytes in) {
      if (!in.takes('{')) {
        return WRONG;
      }
      Map<Object, Object> found = new LinkedHashMap<>();
      if (!in.takes('}')) {
        do {
          Object name = in.takes('"') && in.string() ? key.ofText(in.text()) : WRONG;
          Object one = name != WRONG && in.takes(':') ? JsonQuick.read(value, in) : WRONG;
          if (one == WRONG) {
            return WRONG;
          }
          found.put(name, one);
        } while (in.takes(','));
        if (!in.takes('}')) {
          return WRONG;
        }
      }
      Object[] keys = found.keySet().toArray();
      return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(found.values().toArray()));
    }
  }

  /** Reads an object by the names of its fields. For one task: it remembers the order of the last object's fields. */
  static final class Struct implements Reader {
    private final Reader[] readers;
    private final Map<String, Integer> places = new HashMap<>();
    private final Field[] order = new Field[REMEMBERED];

    Struct(StructType type) {
      StructField[] fields = type.fields();
      readers = new Reader[fields.length];
      for (int place = 0; place < fields.length; place++) {
        readers[place] = of(fields[place].dataType());
        places.put(fields[place].name(), place);
      }
    }

    @Override
    public Object read(JsonBytes in) {
      Object[] values = new Object[readers.length];
      return fill(in, values) ? new GenericInternalRow(values) : WRONG;
    }

    /** Reads an object into the values of its columns; false if it has to be read by the rules. */
    boolean fill(JsonBytes in, Object[] values) {
      if (!in.takes('{')) {
        return false;
      }
      if (in.takes('}')) {
        return true;
      }
      int position = 0;
      do {
        Field field = in.takes('"') ? field(in, position++) : null;
        if (field == null || !in.takes(':')) {
          return false;
        }
        if (field.place < 0) {
          if (!in.value()) {
            return false;
          }
          continue;
        }
        Object value = JsonQuick.read(readers[field.place], in);
        if (value == WRONG) {
          return false;
        }
        values[field.place] = value;
      } while (in.takes(','));
      return in.takes('}');
    }

    /** The field whose name begins at the cursor. Records of a topic mostly have the same fields in the same order. */
    private Field field(JsonBytes in, int position) {
      Field expected = position < REMEMBERED ? order[position] : null;
      if (expected != null && expected.isAt(in)) {
        return expected;
      }
      if (!in.string() || in.isEscaped || in.stop - in.start > LONGEST_NAME) {
        return null;
      }
      String name = in.text();
      Field field = new Field(Arrays.copyOfRange(in.bytes, in.start, in.at), places.getOrDefault(name, -1));
      if (position < REMEMBERED) {
        order[position] = field;
      }
      return field;
    }

  }

  /** A field of the last object: its name with the quote at the end, and the place of its column. */
  private static final class Field {
    final int place;
    private final byte[] name;
    private final long first;
    private final long mask;

    Field(byte[] name, int place) {
      this.name = name;
      this.place = place;
      first = (long) JsonBytes.LONGS.get(Arrays.copyOf(name, Math.max(name.length, Long.BYTES)), 0);
      mask = name.length < Long.BYTES ? (1L << Byte.SIZE * name.length) - 1 : -1L;
    }

    /** Whether the name is at the cursor; consumes it. */
    boolean isAt(JsonBytes in) {
      int end = in.at + name.length;
      if (in.at + Long.BYTES > in.bytes.length || ((long) JsonBytes.LONGS.get(in.bytes, in.at) & mask) != first) {
        return false;
      }
      if (name.length > Long.BYTES
          && (end > in.bytes.length
              || !Arrays.equals(in.bytes, in.at + Long.BYTES, end, name, Long.BYTES, name.length))) {
        return false;
      }
      in.at = end;
      return true;
    }
  }
}
