package dsdagster.protobuf;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Descriptors.Descriptor;
import dsdagster.Expressions;
import dsdagster.OperatorFault;
import dsdagster.registry.Unreadable;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Base64;
import java.util.Deque;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Encodes structs as Protobuf, all as one message: in Confluent's wire format (a zero byte, the id of the schema, the
 * place of the message in its file, the message), or bare. One instance per task.
 */
public final class ProtobufEncoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private final byte[] descriptors;
  private final String message;
  private final int id;
  private final StructType type;
  private final String subject;
  private transient MessageWriter writer;
  private transient byte[] head;

  private ProtobufEncoder(byte[] descriptors, String message, int id, StructType type, String subject) {
    this.descriptors = descriptors;
    this.message = message;
    this.id = id;
    this.type = type;
    this.subject = subject;
  }

  /**
   * The bytes of a struct; null for null.
   *
   * @param struct has a field of the message for every column
   * @param descriptors a set of file descriptors, in base64
   * @param message full name of the message in it
   * @param id id of the schema in the registry; negative for bare messages
   * @param type type of the struct, as JSON
   * @param subject subject of the schema, for messages
   */
  public static Column column(Column struct, String descriptors, String message, int id, String type, String subject) {
    byte[] set = Base64.getDecoder().decode(descriptors);
    ProtobufEncoder made = new ProtobufEncoder(set, message, id, (StructType) DataType.fromJson(type), subject);
    return Expressions.callWithNulls(made, "encode", DataTypes.BinaryType, struct);
  }

  public byte[] encode(InternalRow row) {
    if (row == null) {
      return null;
    }
    if (writer == null) {
      Descriptor found = Descriptors.message(descriptors, message);
      writer = new MessageWriter(found, type);
      head = id < 0 ? new byte[0] : head(found);
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(256);
    bytes.writeBytes(head);
    CodedOutputStream out = CodedOutputStream.newInstance(bytes, 256);
    try {
      writer.write(row, out);
      out.flush();
    } catch (Unreadable problem) {
      String reason = String.valueOf(problem.getMessage());
      throw OperatorFault.of("PROTOBUF_VALUE_UNWRITABLE", Map.of("subject", subject, "reason", reason));
    } catch (IOException problem) {
      throw new IllegalStateException("a write into memory that failed", problem);
    }
    return bytes.toByteArray();
  }

  /** The bytes before each record; a single zero means the first message of the file. */
  private byte[] head(Descriptor found) {
    Deque<Integer> indexes = new ArrayDeque<>();
    for (Descriptor one = found; one != null; one = one.getContainingType()) {
      indexes.addFirst(one.getIndex());
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    bytes.write(0);
    bytes.writeBytes(ByteBuffer.allocate(4).putInt(id).array());
    CodedOutputStream out = CodedOutputStream.newInstance(bytes);
    try {
      if (indexes.size() == 1 && indexes.getFirst() == 0) {
        out.writeSInt32NoTag(0);
      } else {
        out.writeSInt32NoTag(indexes.size());
        for (int index : indexes) {
          out.writeSInt32NoTag(index);
        }
      }
      out.flush();
    } catch (IOException problem) {
      throw new IllegalStateException("a write into memory that failed", problem);
    }
    return bytes.toByteArray();
  }

  @Override
  public String toString() {
    return "protobuf_encode";
  }
}
