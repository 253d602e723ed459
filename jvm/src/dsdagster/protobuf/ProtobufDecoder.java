package dsdagster.protobuf;

import com.google.protobuf.CodedInputStream;
import dsdagster.Expressions;
import dsdagster.registry.Frame;
import dsdagster.registry.RegistrySettings;
import dsdagster.registry.SchemaKey;
import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes Protobuf: in Confluent's wire formats ({@link Frame}; after the id comes the place of the message in its
 * file), or bare messages of one descriptor.
 *
 * <p>Records of any number of schemas may follow one another; each is read by its own writer's schema. One instance
 * per task.
 */
public final class ProtobufDecoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int MOST_INDEXES = 64;
  private static final List<Integer> FIRST = List.of(0);

  private final RegistrySettings settings;
  private final int known;
  private final byte[] descriptors;
  private final String message;
  private final StructType columns;
  private final String part;
  private transient Plans plans;
  private transient Frame frame;
  private transient Plans.Plan last;
  private transient SchemaKey lastKey;
  private transient List<Integer> lastIndexes;

  private ProtobufDecoder(
      RegistrySettings settings, int known, byte[] descriptors, String message, StructType columns, String part) {
    this.settings = settings;
    this.known = known;
    this.descriptors = descriptors;
    this.message = message;
    this.columns = columns;
    this.part = part;
  }

  /**
   * A struct of the columns and, as its last field, the reason why the record cannot be read (null for a good record);
   * null for null.
   *
   * @param bytes key or value of the record
   * @param headers headers of the record, or a null of their type
   * @param settings JSON, see {@link RegistrySettings#of}
   * @param known id of the reader's schema; negative without one
   * @param columns JSON of a struct type; a field that is not nullable has to be there
   * @param reason name of the last field
   * @param part value or key, for reasons
   */
  public static Column column(
      Column bytes, Column headers, String settings, int known, String columns, String reason, String part) {
    StructType wanted = (StructType) DataType.fromJson(columns);
    return column(
        new ProtobufDecoder(RegistrySettings.of(settings), known, null, "", wanted, part), reason, bytes, headers);
  }

  /**
   * As {@link #column}, for bare messages.
   *
   * @param descriptors a set of file descriptors, in base64
   * @param message full name of the message in it
   */
  public static Column bare(
      Column bytes, Column headers, String descriptors, String message, String columns, String reason, String part) {
    StructType wanted = (StructType) DataType.fromJson(columns);
    byte[] set = Base64.getDecoder().decode(descriptors);
    return column(new ProtobufDecoder(null, -1, set, message, wanted, part), reason, bytes, headers);
  }

  private static Column column(ProtobufDecoder decoder, String reason, Column bytes, Column headers) {
    StructType made = new StructType();
    for (StructField field : decoder.columns.fields()) {
      made = made.add(field.name(), field.dataType(), true);
    }
    return Expressions.callWithNulls(decoder, "decode", made.add(reason, DataTypes.StringType, true), bytes, headers);
  }

  public InternalRow decode(byte[] bytes, ArrayData headers) {
    if (bytes == null) {
      return null;
    }
    Object[] values = new Object[columns.size() + 1];
    String reason = descriptors != null ? readBare(bytes, values) : readFramed(bytes, headers, values);
    if (reason != null) {
      Arrays.fill(values, null);
      values[values.length - 1] = UTF8String.fromString(reason);
    }
    return new GenericInternalRow(values);
  }

  private String readBare(byte[] bytes, Object[] values) {
    if (last == null) {
      try {
        last = Plans.planned(Descriptors.message(descriptors, message), null, columns, message);
      } catch (Unreadable problem) {
        return problem.getMessage();
      }
    }
    return last.reason != null ? last.reason : read(bytes, 0, values, message);
  }

  private String readFramed(byte[] bytes, ArrayData headers, Object[] values) {
    frame = frame == null ? new Frame(part) : frame;
    String unframed = frame.look(bytes, headers);
    if (unframed != null) {
      return unframed;
    }
    SchemaKey key = frame.key();
    int body;
    try {
      body = frame.body(choose(key, frame.head(), frame.offset()));
    } catch (IOException problem) {
      return "the " + part + " does not name its message after the id of its schema";
    }
    return last.reason != null ? last.reason : read(bytes, body, values, key);
  }

  private String read(byte[] bytes, int body, Object[] values, Object where) {
    try {
      last.reader.fill(CodedInputStream.newInstance(bytes, body, bytes.length - body), values);
      last.reader.made(values);
      return missing(values);
    } catch (Unreadable problem) {
      return where + ", " + problem.getMessage();
    } catch (IOException | ArithmeticException problem) {
      return "the " + part + " is not a record of " + where;
    }
  }

  /** Finds the plan of a record; returns the end of the list of indexes. A single zero byte means the first message. */
  private int choose(SchemaKey key, byte[] head, int offset) throws IOException {
    boolean isFirst = offset < head.length && head[offset] == 0;
    CodedInputStream in = CodedInputStream.newInstance(head, offset, head.length - offset);
    List<Integer> indexes = isFirst ? FIRST : indexes(in);
    if (last == null || lastKey != key || last.reason != null || !indexes.equals(lastIndexes)) {
      plans = plans == null ? Plans.of(settings, known, columns) : plans;
      last = plans.by(key, indexes);
      lastKey = key;
      lastIndexes = indexes;
    }
    return isFirst ? offset + 1 : offset + in.getTotalBytesRead();
  }


  private static List<Integer> indexes(CodedInputStream in) throws IOException {
    int count = in.readSInt32();
    if (count < 1 || count > MOST_INDEXES) {
      throw new IOException("no list of indexes");
    }
    List<Integer> found = new ArrayList<>(count);
    for (int index = 0; index < count; index++) {
      found.add(in.readSInt32());
    }
    return found;
  }

  private String missing(Object[] values) {
    StructField[] fields = columns.fields();
    for (int column = 0; column < fields.length; column++) {
      if (values[column] == null && !fields[column].nullable()) {
        return "column " + fields[column].name() + " is NULL";
      }
    }
    return null;
  }

  @Override
  public String toString() {
    return "protobuf_decode";
  }
}
