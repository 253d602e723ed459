package dsdagster.join;

import dsdagster.Layout;
import dsdagster.alarm.AlarmedProcessor;
import dsdagster.state.Buckets;
import dsdagster.state.Parts;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;

/**
 * One window and key at a time. Rows arrive packed: the key's columns, then {@code value}, {@code payload}.
 *
 * <p>Rule: only the rows with the greatest value so far are kept, in one value of the state store while they are few.
 * Its layout has a number; an unknown number is refused.
 */
final class WindowExtremeProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final byte LAYOUT = 1;
  private static final String WHAT = "state of a window's greatest rows";
  /** Time of all kept rows, which are in the order of arrival. */
  private static final long NO_TIME = 0;

  private final int valueColumn;
  private transient ValueState<byte[]> stored;
  private transient Buckets buckets;

  WindowExtremeProcessor(StructType keyType) {
    super(keyType, true);
    this.valueColumn = keyType.size();
  }

  @Override
  protected void open() {
    stored = getHandle().getValueState("rows", Encoders.BINARY(), TTLConfig.NONE());
    buckets = new Buckets(getHandle());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    byte[] before = stored.get();
    Greatest greatest = before == null ? new Greatest() : new Greatest(before);
    boolean changed = false;
    while (rows.hasNext()) {
      Row row = rows.next();
      changed |= greatest.add(row.getLong(valueColumn), row.getAs(valueColumn + 1));
    }
    long end = WindowJoinProcessor.endMillis(key);
    if (watermark >= end) {
      return new Parts(() -> leaving(key, greatest, before != null));
    }
    if (before == null) {
      alarm(end);
    }
    if (changed) {
      stored.update(greatest.encode());
    }
    return Collections.emptyIterator();
  }

  /** Removes and returns the next rows to emit; null after the last. */
  private Iterator<Row> leaving(Row key, Greatest greatest, boolean existed) {
    if (greatest.rows.isEmpty()) {
      if (existed) {
        stored.clear();
      }
      return null;
    }
    return greatest.rows.takePayloads().stream().map(row -> RowFactory.create(key.get(0), row)).iterator();
  }

  /** The rows with the greatest value so far. */
  private final class Greatest {
    private long value;
    private final TimedRows rows;

    Greatest() {
      rows = new TimedRows(buckets, 0, TimedRow.BY_TIME);
    }

    Greatest(byte[] bytes) {
      ByteBuffer in = Layout.open(bytes, LAYOUT, WHAT);
      value = in.getLong();
      rows = TimedRows.get(in, buckets, 0, TimedRow.BY_TIME);
    }

    /** Adds the row if its value is the greatest so far; returns whether it was added. */
    boolean add(long given, byte[] payload) {
      if (!rows.isEmpty() && given < value) {
        return false;
      }
      if (!rows.isEmpty() && given > value) {
        rows.clear();
      }
      value = given;
      rows.add(new TimedRow(NO_TIME, null, payload));
      return true;
    }

    /** The state as bytes; also writes the buckets. */
    byte[] encode() {
      ByteBuffer out = Layout.create(1 + Long.BYTES + rows.encodedSize(), LAYOUT, WHAT);
      out.putLong(value);
      rows.put(out);
      return out.array();
    }
  }
}
