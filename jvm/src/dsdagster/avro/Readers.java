package dsdagster.avro;

import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Makes readers of a value from the writer's schema and the declared type, once per schema. */
final class Readers {
  private Readers() {}

  /**
   * The reader of a value.
   *
   * @param written writer's schema of the value
   * @param known reader's schema of the value, for defaults and aliases; null without one
   * @param wanted declared type
   * @throws Unreadable the schema cannot be read as the type
   */
  static ValueReader of(Schema written, Schema known, DataType wanted) {
    if (written.getType() == Schema.Type.UNION) {
      return union(written, known, wanted);
    }
    if (written.getType() == Schema.Type.NULL) {
      return in -> null;
    }
    ValueReader made = nested(written, branch(known, written.getType()), wanted);
    if (made == null) {
      throw new Unreadable(shown(written) + " is written, " + wanted.sql() + " declared");
    }
    return made;
  }

  private static ValueReader nested(Schema written, Schema known, DataType wanted) {
    if (wanted instanceof StructType && written.getType() == Schema.Type.RECORD) {
      return record(new RecordReader(written, known, (StructType) wanted));
    }
    if (wanted instanceof ArrayType && written.getType() == Schema.Type.ARRAY) {
      Schema element = known == null ? null : known.getElementType();
      return array(of(written.getElementType(), element, ((ArrayType) wanted).elementType()));
    }
    if (wanted instanceof MapType && written.getType() == Schema.Type.MAP) {
      DataType key = ((MapType) wanted).keyType();
      if (!key.equals(DataTypes.StringType)) {
        throw new Unreadable("a map with keys of type VARCHAR is written, " + key.sql() + " declared");
      }
      Schema value = known == null ? null : known.getValueType();
      return map(of(written.getValueType(), value, ((MapType) wanted).valueType()));
    }
    return ScalarReaders.of(written, wanted);
  }

  /** The schema of a type in a reader's schema (itself, or a member of its union); null if there is none. */
  static Schema branch(Schema known, Schema.Type type) {
    if (known == null || known.getType() == type) {
      return known;
    }
    if (known.getType() == Schema.Type.UNION) {
      return known.getTypes().stream().filter(part -> part.getType() == type).findFirst().orElse(null);
    }
    return null;
  }

  private static ValueReader union(Schema written, Schema known, DataType wanted) {
    List<Schema> parts = written.getTypes();
    ValueReader[] readers = new ValueReader[parts.size()];
    Unreadable refused = null;
    boolean fits = false;
    for (int index = 0; index < readers.length; index++) {
      Schema part = parts.get(index);
      try {
        readers[index] = of(part, known, wanted);
        fits |= part.getType() != Schema.Type.NULL;
      } catch (Unreadable problem) {
        refused = problem;
        readers[index] =
            in -> {
              throw problem;
            };
      }
    }
    if (!fits && refused != null) {
      throw refused;
    }
    return in -> readers[in.readIndex()].read(in);
  }

  private static ValueReader record(RecordReader reader) {
    return in -> {
      Object[] values = new Object[reader.width()];
      reader.fill(in, values);
      return new GenericInternalRow(values);
    };
  }

  private static ValueReader array(ValueReader element) {
    return in -> {
      List<Object> read = new ArrayList<>();
      for (long count = in.readArrayStart(); count != 0; count = in.arrayNext()) {
        bounded(in, count);
        for (long index = 0; index < count; index++) {
          read.add(element.read(in));
        }
      }
      return new GenericArrayData(read.toArray());
    };
  }

  private static ValueReader map(ValueReader value) {
    return in -> {
      List<Object> keys = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      for (long count = in.readMapStart(); count != 0; count = in.mapNext()) {
        bounded(in, count);
        for (long index = 0; index < count; index++) {
          keys.add(UTF8String.fromBytes(ScalarReaders.bytes(in)));
          values.add(value.read(in));
        }
      }
      return new ArrayBasedMapData(new GenericArrayData(keys.toArray()), new GenericArrayData(values.toArray()));
    };
  }

  /** Refuses a count above the remaining bytes: an element takes at least one byte, so such a record is damaged. */
  private static void bounded(BinaryDecoder in, long count) throws IOException {
    if (count < 0 || count > in.inputStream().available()) {
      throw new Unreadable("the record ends too early");
    }
  }

  /** Name of a schema's type for messages. */
  static String shown(Schema schema) {
    String name = schema.getType().getName();
    return schema.getLogicalType() == null ? name : schema.getLogicalType().getName() + " (" + name + ")";
  }
}
