package dsdagster.registry;

import dsdagster.Expressions;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Removes the frame of Confluent's wire formats from records that describe themselves (JSON). One instance per task.
 */
public final class Payload implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String part;
  private transient Frame frame;

  private Payload(String part) {
    this.part = part;
  }

  /**
   * A struct of {@code payload} (binary) and {@code reason} (text): the record without its frame, or the reason why it
   * has no valid frame; null for null.
   *
   * @param headers headers of the record, or a null of their type
   * @param part value or key, for reasons
   */
  public static Column column(Column bytes, Column headers, String part) {
    StructType type =
        new StructType().add("payload", DataTypes.BinaryType, true).add("reason", DataTypes.StringType, true);
    return Expressions.callWithNulls(new Payload(part), "find", type, bytes, headers);
  }

  public InternalRow find(byte[] bytes, ArrayData headers) {
    if (bytes == null) {
      return null;
    }
    frame = frame == null ? new Frame(part) : frame;
    String reason = frame.look(bytes, headers);
    if (reason != null) {
      return new GenericInternalRow(new Object[] {null, UTF8String.fromString(reason)});
    }
    int body = frame.body(frame.offset());
    return new GenericInternalRow(new Object[] {body == 0 ? bytes : Arrays.copyOfRange(bytes, body, bytes.length), null});
  }

  @Override
  public String toString() {
    return "payload";
  }
}
