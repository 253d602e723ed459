package dsdagster.protobuf;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.WireFormat;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;

/** Handles one field while a record is read; its value is kept in a raw form until the end of the record. */
abstract class Slot {
  static final int NOWHERE = -1;
  private static final int[] NONE = {};

  final int tag;
  final int packedTag;
  final int column;
  int[] cleared = NONE;

  private Slot(FieldDescriptor field, int column) {
    int number = field.getNumber();
    int type = field.getLiteType().getWireType();
    this.tag = number << 3 | type;
    this.packedTag = field.isPackable() ? number << 3 | WireFormat.WIRETYPE_LENGTH_DELIMITED : 0;
    this.column = column;
  }

  /** Reads the field after its tag. */
  abstract void read(CodedInputStream in, Object[] raw) throws IOException;

  /** Reads several values after one tag. */
  void readPacked(CodedInputStream in, Object[] raw) throws IOException {
    int old = in.pushLimit(in.readRawVarint32());
    while (in.getBytesUntilLimit() > 0) {
      read(in, raw);
    }
    in.popLimit(old);
  }

  /** Turns a raw value, which is not null, into the value of the column. */
  Object made(Object raw) {
    return raw;
  }

  /** A oneof's field without a column: it clears the other members. */
  static Slot skipped(FieldDescriptor field) {
    return new Slot(field, NOWHERE) {
      @Override
      void read(CodedInputStream in, Object[] raw) throws IOException {
        in.skipField(tag);
      }
    };
  }

  /** One scalar: the last occurrence is used. */
  static Slot single(FieldDescriptor field, int column, FieldReader reader) {
    return new Slot(field, column) {
      @Override
      void read(CodedInputStream in, Object[] raw) throws IOException {
        raw[column] = reader.read(in);
      }
    };
  }

  /** One message: a second one is merged into the first. */
  static Slot message(FieldDescriptor field, int column, MessageReader inner, Function<Object[], Object> made) {
    return new Slot(field, column) {
      @Override
      void read(CodedInputStream in, Object[] raw) throws IOException {
        Object[] parts = raw[column] == null ? new Object[inner.width()] : (Object[]) raw[column];
        raw[column] = parts;
        inner.read(in, parts);
      }

      @Override
      Object made(Object raw) {
        return made.apply(inner.made((Object[]) raw));
      }
    };
  }

  static Slot repeated(FieldDescriptor field, int column, FieldReader element) {
    return new Slot(field, column) {
      @Override
      @SuppressWarnings("unchecked")
      void read(CodedInputStream in, Object[] raw) throws IOException {
        List<Object> values = (List<Object>) raw[column];
        if (values == null) {
          values = new ArrayList<>();
          raw[column] = values;
        }
        values.add(element.read(in));
      }

      @Override
      Object made(Object raw) {
        return new GenericArrayData(((List<?>) raw).toArray());
      }
    };
  }

  /** A map, whose entries are messages of key and value; the last entry of a key is used. */
  static Slot map(FieldDescriptor field, int column, MessageReader entry) {
    return new Slot(field, column) {
      @Override
      @SuppressWarnings("unchecked")
      void read(CodedInputStream in, Object[] raw) throws IOException {
        Map<Object, Object> values = (Map<Object, Object>) raw[column];
        if (values == null) {
          values = new LinkedHashMap<>();
          raw[column] = values;
        }
        Object[] parts = new Object[2];
        entry.read(in, parts);
        entry.made(parts);
        values.put(parts[0], parts[1]);
      }

      @Override
      Object made(Object raw) {
        Map<?, ?> values = (Map<?, ?>) raw;
        return new ArrayBasedMapData(
            new GenericArrayData(values.keySet().toArray()), new GenericArrayData(values.values().toArray()));
      }
    };
  }
}
