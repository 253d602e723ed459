package dsdagster.protobuf;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.OneofDescriptor;
import dsdagster.registry.Unreadable;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/**
 * Writes a struct as a message: each column as the field of its name.
 *
 * <p>NULL is a missing field. A list or map that is NULL is written as empty; fields that cannot be missing refuse
 * NULL. At most one member of a oneof may have a value.
 */
final class MessageWriter {
  private static final int NONE = -1;
  private final String[] names;
  private final DataType[] types;
  private final FieldWriter[] writers;
  private final boolean[] needed;
  /** By column: the number of its oneof; negative for other fields. */
  private final int[] oneofs;
  private final String[] oneofNames;

  MessageWriter(Descriptor message, StructType type) {
    names = type.fieldNames();
    types = new DataType[names.length];
    writers = new FieldWriter[names.length];
    needed = new boolean[names.length];
    oneofs = new int[names.length];
    oneofNames = message.getRealOneofs().stream().map(OneofDescriptor::getName).toArray(String[]::new);
    for (int column = 0; column < names.length; column++) {
      FieldDescriptor field = message.findFieldByName(names[column]);
      if (field == null) {
        throw new IllegalArgumentException(message.getFullName() + " has no field " + names[column]);
      }
      types[column] = type.fields()[column].dataType();
      needed[column] = !field.isRepeated() && !field.hasPresence() || field.isRequired();
      oneofs[column] = field.getRealContainingOneof() == null ? NONE : field.getRealContainingOneof().getIndex();
      writers[column] = of(field, types[column]);
    }
  }

  void write(InternalRow row, CodedOutputStream out) throws IOException {
    int[] members = oneofNames.length == 0 ? null : new int[oneofNames.length]; // by oneof: its column, counted from 1
    for (int column = 0; column < names.length; column++) {
      try {
        if (!row.isNullAt(column)) {
          if (oneofs[column] != NONE) {
            checkAlone(members, column);
          }
          writers[column].write(row.get(column, types[column]), out);
        } else if (needed[column]) {
          throw new Unreadable("is NULL");
        }
      } catch (Unreadable problem) {
        throw problem.inside(names[column]);
      }
    }
  }

  /** Refuses a second value in a oneof: readers would keep only the last one. */
  private void checkAlone(int[] members, int column) {
    int oneof = oneofs[column];
    if (members[oneof] != 0) {
      throw new Unreadable("has a value beside " + names[members[oneof] - 1] + ", of the same oneof " + oneofNames[oneof]);
    }
    members[oneof] = column + 1;
  }

  private static FieldWriter of(FieldDescriptor field, DataType type) {
    if (field.isMapField()) {
      return map(field, (MapType) type);
    }
    if (!field.isRepeated()) {
      return value(field, type);
    }
    DataType element = ((ArrayType) type).elementType();
    FieldWriter each = value(field, element);
    return (value, out) -> {
      ArrayData values = (ArrayData) value;
      for (int index = 0; index < values.numElements(); index++) {
        if (values.isNullAt(index)) {
          throw new Unreadable("has an element that is NULL");
        }
        each.write(values.get(index, element), out);
      }
    };
  }

  private static FieldWriter map(FieldDescriptor field, MapType type) {
    FieldWriter key = value(field.getMessageType().findFieldByNumber(1), type.keyType());
    FieldWriter mapped = value(field.getMessageType().findFieldByNumber(2), type.valueType());
    return (value, out) -> {
      ArrayData keys = ((MapData) value).keyArray();
      ArrayData values = ((MapData) value).valueArray();
      for (int index = 0; index < keys.numElements(); index++) {
        if (values.isNullAt(index)) {
          throw new Unreadable("has a value that is NULL");
        }
        int at = index;
        nested(field, out, inner -> {
          key.write(keys.get(at, type.keyType()), inner);
          mapped.write(values.get(at, type.valueType()), inner);
        });
      }
    };
  }

  private static FieldWriter value(FieldDescriptor field, DataType type) {
    if (field.getType() != FieldDescriptor.Type.MESSAGE) {
      return ScalarWriters.of(field, type);
    }
    Descriptor message = field.getMessageType();
    if (type instanceof StructType) {
      MessageWriter writer = new MessageWriter(message, (StructType) type);
      return (value, out) -> nested(field, out, inner -> writer.write((InternalRow) value, inner));
    }
    FieldWriter common =
        CommonTypes.isWrapper(message)
            ? ScalarWriters.of(CommonTypes.wrapped(message), type)
            : ScalarWriters.common(message, type);
    return (value, out) -> nested(field, out, inner -> common.write(value, inner));
  }

  private interface Body {
    void write(CodedOutputStream out) throws IOException;
  }

  private static void nested(FieldDescriptor field, CodedOutputStream out, Body body) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(64);
    CodedOutputStream inner = CodedOutputStream.newInstance(bytes, 64);
    body.write(inner);
    inner.flush();
    out.writeByteArray(field.getNumber(), bytes.toByteArray());
  }
}
