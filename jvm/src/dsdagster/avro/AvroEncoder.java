package dsdagster.avro;

import dsdagster.Expressions;
import dsdagster.OperatorFault;
import dsdagster.registry.Unreadable;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Encodes structs as Avro in Confluent's wire format, with one registered schema. One instance per task. */
public final class AvroEncoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String schema;
  private final int id;
  private final StructType type;
  private final String subject;
  private transient ValueWriter writer;
  private transient ByteArrayOutputStream bytes;
  private transient BinaryEncoder encoder;

  private AvroEncoder(String schema, int id, StructType type, String subject) {
    this.schema = schema;
    this.id = id;
    this.type = type;
    this.subject = subject;
  }

  /**
   * The bytes of a struct; null for null.
   *
   * @param struct has a column for every field of the schema
   * @param schema registered schema, as JSON
   * @param id id of the schema in the registry
   * @param type type of the struct, as JSON
   * @param subject subject of the schema, for messages
   */
  public static Column column(Column struct, String schema, int id, String type, String subject) {
    AvroEncoder made = new AvroEncoder(schema, id, (StructType) DataType.fromJson(type), subject);
    return Expressions.callWithNulls(made, "encode", DataTypes.BinaryType, struct);
  }

  public byte[] encode(InternalRow row) {
    if (row == null) {
      return null;
    }
    if (writer == null) {
      writer = Writers.record(new Schema.Parser().parse(schema), type);
      bytes = new ByteArrayOutputStream(256);
    }
    bytes.reset();
    bytes.write(0);
    bytes.writeBytes(ByteBuffer.allocate(4).putInt(id).array());
    encoder = EncoderFactory.get().directBinaryEncoder(bytes, encoder);
    try {
      writer.write(row, encoder);
      encoder.flush();
    } catch (Unreadable problem) {
      String reason = String.valueOf(problem.getMessage());
      throw OperatorFault.of("AVRO_VALUE_UNWRITABLE", Map.of("subject", subject, "reason", reason));
    } catch (IOException problem) {
      throw new IllegalStateException("a write into memory that failed", problem);
    }
    return bytes.toByteArray();
  }

  @Override
  public String toString() {
    return "avro_encode";
  }
}
