package dsdagster.join;

import dsdagster.Expressions;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Drops rows that cannot have a window's greatest value, since the same task has seen a greater one before: of a
 * million rows of one window only a few are sent to its operator. One instance per task.
 */
public final class Leaders implements Serializable {
  private static final long serialVersionUID = 1L;
  /** Largest number of windows and keys that a task remembers; above it all are forgotten, and more rows are sent. */
  private static final int MOST = 10_000;

  private transient Map<Object, Long> greatest;

  private Leaders() {}

  static Dataset<Row> of(Dataset<Row> rows, Column end, List<Column> keys) {
    Column key = functions.lit(null).cast(DataTypes.BinaryType);
    if (!keys.isEmpty()) {
      Column struct = functions.struct(keys.toArray(new Column[0]));
      StructType type = (StructType) rows.select(struct.as("k")).schema().apply("k").dataType();
      key = Expressions.pack(struct, type);
    }
    return rows.where(Expressions.test(new Leaders(), "mayLead", end, key, rows.col("value")));
  }

  public boolean mayLead(long end, byte[] key, long value) {
    if (greatest == null || greatest.size() >= MOST) {
      greatest = new HashMap<>();
    }
    Object place = key == null ? (Object) end : new Place(end, ByteBuffer.wrap(key));
    Long before = greatest.get(place);
    if (before != null && before > value) {
      return false;
    }
    if (before == null || before < value) {
      greatest.put(place, value);
    }
    return true;
  }

  @Override
  public String toString() {
    return "leaders";
  }

  private record Place(long end, ByteBuffer key) {}
}
