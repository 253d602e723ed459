package dsdagster.json;

import dsdagster.Expressions;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Encodes structs, arrays and maps as JSON text, NULL as {@code null} ({@link JsonWriters}). One instance per task. */
public final class JsonEncoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int AS_NEEDED = 0;

  private final DataType type;
  private final String separator;
  private final int digits;
  private transient JsonWriters.Writer writer;
  private transient JsonOutput out;
  private transient GenericInternalRow only;

  private JsonEncoder(DataType type, String separator, int digits) {
    this.type = type;
    this.separator = separator;
    this.digits = digits;
  }

  /**
   * The JSON text of a struct, an array or a map; null for null.
   *
   * @param value value to write
   * @param type JSON of the value's type
   * @param separator between date and time of day in times
   * @param digits digits of a second's fraction in times: 3 or 6; 0: 6 if a time has microseconds, otherwise 3
   */
  public static Column column(Column value, String type, String separator, int digits) {
    JsonEncoder encoder = new JsonEncoder(DataType.fromJson(type), separator, digits);
    return Expressions.call(encoder, "encode", DataTypes.StringType, true, value);
  }

  public UTF8String encode(InternalRow row) {
    return text(row);
  }

  public UTF8String encode(ArrayData array) {
    return text(array);
  }

  public UTF8String encode(MapData map) {
    return text(map);
  }

  private UTF8String text(Object value) {
    if (writer == null) {
      boolean asNeeded = digits == AS_NEEDED;
      JsonWriters.Times times =
          asNeeded ? JsonWriters.Times.asNeeded(separator) : new JsonWriters.Times(separator, digits);
      writer = JsonWriters.of(type, times);
      out = new JsonOutput();
      only = new GenericInternalRow(1);
    }
    only.update(0, value);
    out.clear(); // of a value that has failed
    writer.write(out, only, 0);
    return UTF8String.fromBytes(out.take());
  }

  @Override
  public String toString() {
    return "json_encode";
  }
}
