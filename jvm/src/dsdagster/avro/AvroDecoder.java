package dsdagster.avro;

import dsdagster.Expressions;
import dsdagster.registry.Frame;
import dsdagster.registry.RegistrySettings;
import dsdagster.registry.SchemaKey;
import dsdagster.registry.Unreadable;
import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
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
 * Decodes Avro in Confluent's wire formats ({@link Frame}).
 *
 * <p>Records of any number of schemas may follow one another; each is read by its own writer's schema. One instance per
 * task.
 */
public final class AvroDecoder implements Serializable {
  private static final long serialVersionUID = 1L;

  private final RegistrySettings settings;
  private final int known;
  private final StructType columns;
  private final String part;
  private transient Plans plans;
  private transient BinaryDecoder decoder;
  private transient Plans.Plan last;
  private transient SchemaKey lastKey;
  private transient Frame frame;

  private AvroDecoder(RegistrySettings settings, int known, StructType columns, String part) {
    this.settings = settings;
    this.known = known;
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
    StructType made = new StructType();
    for (StructField field : wanted.fields()) {
      made = made.add(field.name(), field.dataType(), true);
    }
    AvroDecoder decoder = new AvroDecoder(RegistrySettings.of(settings), known, wanted, part);
    return Expressions.callWithNulls(decoder, "decode", made.add(reason, DataTypes.StringType, true), bytes, headers);
  }

  public InternalRow decode(byte[] bytes, ArrayData headers) {
    if (bytes == null) {
      return null;
    }
    Object[] values = new Object[columns.size() + 1];
    String reason = read(bytes, headers, values);
    if (reason != null) {
      Arrays.fill(values, null);
      values[values.length - 1] = UTF8String.fromString(reason);
    }
    return new GenericInternalRow(values);
  }

  private String read(byte[] bytes, ArrayData headers, Object[] values) {
    frame = frame == null ? new Frame(part) : frame;
    String unframed = frame.look(bytes, headers);
    if (unframed != null) {
      return unframed;
    }
    SchemaKey key = frame.key();
    Plans.Plan plan = plan(key);
    if (plan.reason != null) {
      return plan.reason;
    }
    int body = frame.body(frame.offset());
    try {
      decoder = DecoderFactory.get().binaryDecoder(bytes, body, bytes.length - body, decoder);
      plan.fill(decoder, values);
      return decoder.isEnd() ? missing(values) : "bytes are left after a record of " + key;
    } catch (Unreadable problem) {
      return key + ", " + problem.getMessage();
    } catch (EOFException problem) {
      return "the " + part + " ends too early for " + key;
    } catch (IOException | AvroRuntimeException | ArithmeticException | IndexOutOfBoundsException problem) {
      return "the " + part + " is not a record of " + key;
    }
  }

  private Plans.Plan plan(SchemaKey key) {
    if (last == null || lastKey != key || last.reason != null) {
      plans = plans == null ? Plans.of(settings, known, columns) : plans;
      last = plans.by(key);
      lastKey = key;
    }
    return last;
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
    return "avro_decode";
  }
}
