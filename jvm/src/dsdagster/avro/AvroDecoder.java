package dsdagster.avro;

import dsdagster.Expressions;
import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes Avro in Confluent's wire format: a zero byte, the schema's id in four bytes, the record.
 *
 * <p>Records of any number of schemas may follow one another; each is read by its own writer's schema. One instance per
 * task.
 */
public final class AvroDecoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int HEAD = 5;

  private final RegistrySettings settings;
  private final int known;
  private final StructType columns;
  private final String part;
  private transient Plans plans;
  private transient BinaryDecoder decoder;
  private transient Plans.Plan last;
  private transient int lastId;

  private AvroDecoder(RegistrySettings settings, int known, StructType columns, String part) {
    this.settings = settings;
    this.known = known;
    this.columns = columns;
    this.part = part;
  }

  /**
   * A struct of the columns and, as its last field, why the record cannot be read (null for a good one); null for null.
   *
   * @param bytes the part of the record
   * @param settings JSON, see {@link RegistrySettings#of}
   * @param known id of the reader's schema, negative without
   * @param columns JSON of a struct type; a field that is not nullable has to be there
   * @param reason name of the last field
   * @param part what the part is called in reasons: value or key
   */
  public static Column column(
      Column bytes, String settings, int known, String columns, String reason, String part) {
    StructType wanted = (StructType) DataType.fromJson(columns);
    StructType made = new StructType();
    for (StructField field : wanted.fields()) {
      made = made.add(field.name(), field.dataType(), true);
    }
    AvroDecoder decoder = new AvroDecoder(RegistrySettings.of(settings), known, wanted, part);
    return Expressions.callWithNulls(decoder, "decode", made.add(reason, DataTypes.StringType, true), bytes);
  }

  public InternalRow decode(byte[] bytes) {
    if (bytes == null) {
      return null;
    }
    Object[] values = new Object[columns.size() + 1];
    String reason = read(bytes, values);
    if (reason != null) {
      Arrays.fill(values, null);
      values[values.length - 1] = UTF8String.fromString(reason);
    }
    return new GenericInternalRow(values);
  }

  private String read(byte[] bytes, Object[] values) {
    if (bytes.length == 0) {
      return "the " + part + " is empty";
    }
    if (bytes.length < HEAD || bytes[0] != 0) {
      return "the " + part + " does not begin with the id of a schema (a zero byte and four of the id)";
    }
    int id = ByteBuffer.wrap(bytes, 1, 4).getInt();
    Plans.Plan plan = plan(id);
    if (plan.reason != null) {
      return plan.reason;
    }
    try {
      decoder = DecoderFactory.get().binaryDecoder(bytes, HEAD, bytes.length - HEAD, decoder);
      plan.fill(decoder, values);
      return decoder.isEnd() ? missing(values) : "bytes are left behind a record of schema " + id;
    } catch (Unreadable problem) {
      return "schema " + id + ", " + problem.getMessage();
    } catch (EOFException problem) {
      return "the " + part + " ends too early for schema " + id;
    } catch (IOException | AvroRuntimeException | ArithmeticException | IndexOutOfBoundsException problem) {
      return "the " + part + " is no record of schema " + id;
    }
  }

  private Plans.Plan plan(int id) {
    if (last == null || lastId != id || last.reason != null) {
      plans = plans == null ? Plans.of(settings, known, columns) : plans;
      last = plans.byId(id);
      lastId = id;
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
