package dsdagster.protobuf;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.DynamicMessage;
import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Reads a message into declared columns, field by field, without an intermediate message.
 *
 * <p>A column is the field with the number that the reader's schema has for the column's name; if the reader's schema
 * has no such field, the writer's field of that name. A field that is not in the record is null if Protobuf
 * distinguishes a missing value from a default (optional, a message, in a oneof), else its default, an empty list or
 * an empty map. Other fields are skipped.
 */
final class MessageReader {
  private static final int DIRECT = 1024;
  private static final byte[] ZEROS = new byte[16];

  private final StructField[] columns;
  private final Slot[] slots;
  private final Object[] absent;
  private final boolean[] missing;
  private final Slot[] direct;
  private final Map<Integer, Slot> others = new HashMap<>();

  /**
   * The reader of a message.
   *
   * @param written writer's descriptor
   * @param known reader's descriptor; null without one
   * @throws Unreadable a field cannot be read as the type of its column
   */
  MessageReader(Descriptor written, Descriptor known, StructType wanted) {
    columns = wanted.fields();
    slots = new Slot[columns.length];
    absent = new Object[columns.length];
    missing = new boolean[columns.length];
    Map<Integer, Slot> byNumber = new HashMap<>();
    for (int column = 0; column < columns.length; column++) {
      try {
        connect(written, known, column, byNumber);
      } catch (Unreadable problem) {
        throw problem.inside(columns[column].name());
      }
    }
    addOneofs(written, byNumber);
    int most = byNumber.keySet().stream().filter(number -> number < DIRECT).max(Integer::compare).orElse(0);
    direct = new Slot[most + 1];
    byNumber.forEach(this::place);
  }

  private void place(int number, Slot slot) {
    if (number < direct.length) {
      direct[number] = slot;
    } else {
      others.put(number, slot);
    }
  }

  private void connect(Descriptor written, Descriptor known, int column, Map<Integer, Slot> byNumber) {
    String name = columns[column].name();
    FieldDescriptor reader = known == null ? null : known.findFieldByName(name);
    FieldDescriptor field = reader == null ? written.findFieldByName(name) : written.findFieldByNumber(reader.getNumber());
    if (field != null) {
      slots[column] = slot(field, reader, columns[column].dataType(), column);
      byNumber.put(field.getNumber(), slots[column]);
    }
    FieldDescriptor told = reader == null ? field : reader;
    missing[column] = told == null;
    absent[column] = told == null ? null : valueOfNothing(told, columns[column].dataType());
  }

  /** Adds slots for the members of oneofs: a member clears the other members, whichever schema declares them. */
  private void addOneofs(Descriptor written, Map<Integer, Slot> byNumber) {
    written.getRealOneofs().forEach(
        oneof -> {
          List<FieldDescriptor> members = oneof.getFields();
          int[] declared =
              members.stream().map(one -> byNumber.get(one.getNumber())).filter(Objects::nonNull)
                  .mapToInt(slot -> slot.column).toArray();
          if (declared.length > 0) {
            for (FieldDescriptor member : members) {
              byNumber.computeIfAbsent(member.getNumber(), unused -> Slot.skipped(member)).cleared = declared;
            }
          }
        });
  }

  // --- types

  private static Slot slot(FieldDescriptor field, FieldDescriptor known, DataType wanted, int column) {
    if (field.isMapField()) {
      return Slot.map(field, column, entries(field, known, wanted));
    }
    if (field.isRepeated()) {
      if (!(wanted instanceof ArrayType)) {
        throw refused(field, wanted);
      }
      return Slot.repeated(field, column, value(field, known, ((ArrayType) wanted).elementType()));
    }
    if (field.getType() != FieldDescriptor.Type.MESSAGE) {
      return Slot.single(field, column, scalar(field, wanted));
    }
    return messageSlot(field, known, wanted, column);
  }

  private static MessageReader entries(FieldDescriptor field, FieldDescriptor known, DataType wanted) {
    if (!(wanted instanceof MapType)) {
      throw refused(field, wanted);
    }
    MapType map = (MapType) wanted;
    StructType entry = new StructType().add("key", map.keyType()).add("value", map.valueType());
    return new MessageReader(field.getMessageType(), inside(known), entry);
  }

  /** The reader of a single value or element. */
  private static FieldReader value(FieldDescriptor field, FieldDescriptor known, DataType wanted) {
    if (field.getType() != FieldDescriptor.Type.MESSAGE) {
      return scalar(field, wanted);
    }
    Slot slot = messageSlot(field, known, wanted, 0);
    return in -> {
      Object[] raw = new Object[1];
      slot.read(in, raw);
      return slot.made(raw[0]);
    };
  }

  private static Slot messageSlot(FieldDescriptor field, FieldDescriptor known, DataType wanted, int column) {
    CommonTypes.Common common = CommonTypes.of(field.getMessageType(), wanted);
    StructType read = common != null ? common.read : wanted instanceof StructType ? (StructType) wanted : null;
    if (read == null) {
      throw refused(field, wanted);
    }
    Function<Object[], Object> made = common != null ? common.made : GenericInternalRow::new;
    return Slot.message(field, column, new MessageReader(field.getMessageType(), inside(known), read), made);
  }

  private static FieldReader scalar(FieldDescriptor field, DataType wanted) {
    FieldReader made = ScalarReaders.of(field, wanted);
    if (made == null) {
      throw refused(field, wanted);
    }
    return made;
  }

  private static Descriptor inside(FieldDescriptor known) {
    return known != null && known.getType() == FieldDescriptor.Type.MESSAGE ? known.getMessageType() : null;
  }

  private static Unreadable refused(FieldDescriptor field, DataType wanted) {
    return new Unreadable(shown(field) + " is written, " + wanted.sql() + " declared");
  }

  /** Name of a field's type for messages. */
  static String shown(FieldDescriptor field) {
    if (field.isMapField()) {
      List<FieldDescriptor> parts = field.getMessageType().getFields();
      return "map<" + shown(parts.get(0)) + ", " + shown(parts.get(1)) + ">";
    }
    String repeated = field.isRepeated() ? "repeated " : "";
    switch (field.getType()) {
      case MESSAGE:
      case GROUP:
        return repeated + field.getMessageType().getFullName();
      case ENUM:
        return repeated + field.getEnumType().getFullName();
      default:
        return repeated + field.getType().name().toLowerCase(java.util.Locale.ROOT);
    }
  }

  /** Value of a column if its field is not in the record. */
  private static Object valueOfNothing(FieldDescriptor field, DataType wanted) {
    if (field.isMapField()) {
      return new ArrayBasedMapData(new GenericArrayData(new Object[0]), new GenericArrayData(new Object[0]));
    }
    if (field.isRepeated()) {
      return new GenericArrayData(new Object[0]);
    }
    boolean isEntry = field.getContainingType().getOptions().getMapEntry();
    try {
      if (field.getType() == FieldDescriptor.Type.MESSAGE) {
        return isEntry ? emptyMessage(field, wanted) : null;
      }
      if (field.hasDefaultValue()) {
        DynamicMessage.Builder made = DynamicMessage.newBuilder(field.getContainingType());
        CodedInputStream in =
            CodedInputStream.newInstance(made.setField(field, field.getDefaultValue()).buildPartial().toByteArray());
        in.readTag();
        return scalar(field, wanted).read(in);
      }
      boolean isTold = field.hasPresence() && !isEntry;
      return isTold ? null : scalar(field, wanted).read(CodedInputStream.newInstance(ZEROS));
    } catch (IOException problem) {
      throw new Unreadable("its default cannot be read");
    }
  }

  private static Object emptyMessage(FieldDescriptor field, DataType wanted) throws IOException {
    return value(field, null, wanted).read(CodedInputStream.newInstance(ZEROS));
  }

  // --- records

  int width() {
    return columns.length;
  }

  /** Whether a column has no field in the writer's schema nor in the reader's. */
  boolean isMissing(int column) {
    return missing[column];
  }

  /** Reads a message, preceded by its length, into raw values. */
  void read(CodedInputStream in, Object[] raw) throws IOException {
    int old = in.pushLimit(in.readRawVarint32());
    fill(in, raw);
    in.popLimit(old);
  }

  /** Reads to the end of the input or of its limit into the first {@link #width} places, raw. */
  void fill(CodedInputStream in, Object[] raw) throws IOException {
    for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
      int number = tag >>> 3;
      Slot slot = number < direct.length ? direct[number] : others.get(number);
      if (slot == null || (tag != slot.tag && tag != slot.packedTag)) {
        if (!in.skipField(tag)) {
          throw new Unreadable("a group ends that did not begin");
        }
        continue;
      }
      for (int column : slot.cleared) {
        if (column != slot.column) {
          raw[column] = null;
        }
      }
      try {
        if (tag == slot.tag) {
          slot.read(in, raw);
        } else {
          slot.readPacked(in, raw);
        }
      } catch (Unreadable problem) {
        throw problem.inside(columns[slot.column].name());
      }
    }
  }

  /** Turns raw values into values of the columns, in place. */
  Object[] made(Object[] raw) {
    for (int column = 0; column < columns.length; column++) {
      if (raw[column] == null) {
        raw[column] = absent[column];
        continue;
      }
      try {
        raw[column] = slots[column].made(raw[column]);
      } catch (Unreadable problem) {
        throw problem.inside(columns[column].name());
      }
    }
    return raw;
  }
}
