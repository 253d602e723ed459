package dsdagster.join;

import dsdagster.alarm.AlarmedProcessor;
import dsdagster.state.Parts;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;

/**
 * A share of one window at a time; all rows of a key are in the same share. Rows arrive packed: {@code end}
 * microseconds, {@code share}, {@code side}, {@code key} (null for a key that matches nothing), {@code payload}.
 *
 * <p>Rules: the rows of both sides wait in state until the watermark passes the end; then all pairs are emitted and
 * the state is deleted. Rows may arrive in that same batch, for example from a window step below.
 */
final class WindowJoinProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;

  private final int sideColumn;
  private final boolean[] lonely;
  private transient WindowRows state;

  WindowJoinProcessor(StructType keyType, boolean lonelyLeft, boolean lonelyRight) {
    super(keyType, true);
    this.sideColumn = keyType.size();
    this.lonely = new boolean[] {lonelyLeft, lonelyRight};
  }

  @Override
  protected void open() {
    state = new WindowRows(getHandle());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    boolean isKnown = state.open();
    while (rows.hasNext()) {
      Row row = rows.next();
      state.add(row.getInt(sideColumn), row.getAs(sideColumn + 1), row.getAs(sideColumn + 2));
    }
    long end = endMillis(key);
    if (watermark >= end) {
      return new Parts(new WindowPairs(state, key.get(0), lonely)::next);
    }
    if (!isKnown) {
      alarm(end);
    }
    state.store();
    return Collections.emptyIterator();
  }

  /** End of a window. A watermark with exactly this time has passed the window, since the end is not part of it. */
  static long endMillis(Row key) {
    return -Math.floorDiv(-key.getLong(0), MICROS_PER_MILLI);
  }
}
