package dsdagster.registry;

import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Finds the schema of a record, in both of Confluent's wire formats. One instance per task.
 *
 * <p>Before the record: a zero byte and the id in four bytes. Or in a header ({@code __value_schema_id}, {@code
 * __key_schema_id}): a byte of one and the GUID in sixteen bytes, or a zero byte and the id; the record then begins at
 * once. A header takes precedence over the bytes of the record, as in Confluent's own deserializers. Source: {@code
 * confluent_kafka.schema_registry}, {@code dual_schema_id_deserializer}.
 */
public final class Frame {
  private static final int ID_BYTES = 5;
  private static final int GUID_BYTES = 17;

  private final String part;
  private final UTF8String header;
  private byte[] head;
  private int offset;
  private boolean inHeader;
  private SchemaKey key = SchemaKey.ofId(-1);

  /** {@code part}: value or key. */
  public Frame(String part) {
    this.part = part;
    this.header = UTF8String.fromString("__" + part + "_schema_id");
  }

  /**
   * Reads the frame of a record.
   *
   * @param headers headers of the record, structs of name and bytes; null without headers
   * @return the reason why the schema is unknown; null if it was found
   */
  public String look(byte[] bytes, ArrayData headers) {
    byte[] found = headers == null ? null : found(headers);
    inHeader = found != null;
    head = inHeader ? found : bytes;
    if (!inHeader && bytes.length == 0) {
      return "the " + part + " is empty";
    }
    if (head.length >= ID_BYTES && head[0] == 0) {
      offset = ID_BYTES;
      named(false, 0, ByteBuffer.wrap(head, 1, 4).getInt());
      return null;
    }
    if (inHeader && head.length >= GUID_BYTES && head[0] == 1) {
      ByteBuffer halves = ByteBuffer.wrap(head, 1, 16);
      offset = GUID_BYTES;
      named(true, halves.getLong(), halves.getLong());
      return null;
    }
    return inHeader
        ? "the header " + header + " holds no id of a schema"
        : "the " + part + " does not begin with the id of a schema (a zero byte and four of the id)";
  }

  /** Bytes of the first header of the name; null without one. */
  private byte[] found(ArrayData headers) {
    for (int index = 0; index < headers.numElements(); index++) {
      InternalRow one = headers.getStruct(index, 2);
      if (!one.isNullAt(0) && !one.isNullAt(1) && header.equals(one.getUTF8String(0))) {
        return one.getBinary(1);
      }
    }
    return null;
  }

  private void named(boolean isGuid, long high, long low) {
    if (!key.is(isGuid, high, low)) {
      key = new SchemaKey(isGuid, high, low);
    }
  }

  /** The schema of the record; the same object as long as it does not change. */
  public SchemaKey key() {
    return key;
  }

  /** The bytes with the id; further parts of the frame may follow it, at {@link #offset}. */
  public byte[] head() {
    return head;
  }

  public int offset() {
    return offset;
  }

  /** Offset at which the record itself begins, if the parts after the id end at {@code end} of {@link #head}. */
  public int body(int end) {
    return inHeader ? 0 : end;
  }
}
