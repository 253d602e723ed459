package dsdagster.join;

import dsdagster.alarm.AlarmedProcessor;
import dsdagster.state.Buckets;
import dsdagster.state.Parts;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;

/**
 * One key at a time. Rows arrive packed: the key's columns, then {@code side}, {@code ts}, {@code payload}.
 *
 * <p>Rules: a row is joined with all stored rows of the other side and then stored, so that each pair is emitted once.
 * A watermark has passed the rows with exactly its time: Spark drops later ones. Whether a row had a partner is stored
 * only if rows without a partner are emitted.
 */
final class IntervalJoinProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;
  private static final int LEFT = 0;
  private static final int RIGHT = 1;

  private final int sideColumn;
  private final boolean[] lonely;
  private final long within;
  private transient ValueState<byte[]> stored;
  private transient Buckets buckets;

  IntervalJoinProcessor(StructType keyType, boolean lonelyLeft, boolean lonelyRight, long withinMicros) {
    super(keyType, true);
    this.sideColumn = keyType.size();
    this.lonely = new boolean[] {lonelyLeft, lonelyRight};
    this.within = withinMicros;
  }

  @Override
  protected void open() {
    stored = getHandle().getValueState("rows", Encoders.BINARY(), TTLConfig.NONE());
    buckets = new Buckets(getHandle());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    boolean isAlarm = !rows.hasNext();
    byte[] before = stored.get();
    if (before == null && isAlarm) {
      return Collections.emptyIterator();
    }
    IntervalState state = IntervalState.decode(before, buckets);
    if (state.alarm <= watermark) {
      state.alarm = IntervalState.NO_ALARM;
      if (!isAlarm) {
        silence(); // otherwise the alarm would be due after these rows, in this batch
      }
    }
    Visit visit = new Visit(state, rows, isMatchable(key), watermark * MICROS_PER_MILLI - within, before != null);
    return new Parts(visit::next);
  }

  private boolean isMatchable(Row key) {
    for (int i = 0; i < sideColumn; i++) {
      if (key.isNullAt(i)) {
        return false;
      }
    }
    return true;
  }

  /** Emits the rows of a key: pairs row by row, then rows that nothing can join any more; then stores the key. */
  private final class Visit {
    private final IntervalState state;
    private final Iterator<Row> rows;
    private final boolean isMatchable;
    private final long passed;
    private final boolean existed;
    private int forgotten;

    Visit(IntervalState state, Iterator<Row> rows, boolean isMatchable, long passed, boolean existed) {
      this.state = state;
      this.rows = rows;
      this.isMatchable = isMatchable;
      this.passed = passed;
      this.existed = existed;
    }

    Iterator<Row> next() {
      if (rows.hasNext()) {
        return take(rows.next());
      }
      if (forgotten <= RIGHT) {
        return forget(forgotten++);
      }
      finish();
      return null;
    }

    private Iterator<Row> take(Row row) {
      int side = row.getInt(sideColumn);
      TimedRow arrived = new TimedRow(row.getLong(sideColumn + 1), null, row.getAs(sideColumn + 2));
      TimedRows others = state.sides.get(1 - side);
      TimedRows.Cursor partners = others.between(arrived.ts() - within, arrived.ts() + within);
      boolean isMatched = isMatchable && partners.hasNext();
      state.sides.get(side).add(isMatched && lonely[side] ? matched(arrived) : arrived);
      return isMatched ? new Pairs(arrived.payload(), side, partners) : Collections.emptyIterator();
    }

    /** Rows of a side that no row can join any more: rows without a partner are emitted. */
    private Iterator<Row> forget(int side) {
      TimedRows known = state.sides.get(side);
      if (!lonely[side]) {
        known.removeFirst(known.countBefore(passed + 1));
        return Collections.emptyIterator();
      }
      return new Alone(known.takeUntil(passed), side);
    }

    private void finish() {
      setAlarm(state);
      if (!state.isEmpty()) {
        stored.update(state.encode());
      } else if (existed) {
        stored.clear();
      }
    }
  }

  private static TimedRow matched(TimedRow row) {
    return new TimedRow(row.ts(), IntervalState.MATCHED, row.payload());
  }

  /** The pairs of a row. */
  private final class Pairs implements Iterator<Row> {
    private final byte[] payload;
    private final int side;
    private final TimedRows.Cursor partners;

    Pairs(byte[] payload, int side, TimedRows.Cursor partners) {
      this.payload = payload;
      this.side = side;
      this.partners = partners;
    }

    @Override
    public boolean hasNext() {
      return partners.hasNext();
    }

    @Override
    public Row next() {
      TimedRow other = partners.next();
      if (lonely[1 - side] && other.order() == null) {
        partners.replace(matched(other));
      }
      return side == LEFT ? RowFactory.create(payload, other.payload()) : RowFactory.create(other.payload(), payload);
    }
  }

  /** The rows without a partner among the forgotten rows. */
  private static final class Alone implements Iterator<Row> {
    private final Iterator<TimedRow> rows;
    private final int side;
    private TimedRow found;

    Alone(Iterator<TimedRow> rows, int side) {
      this.rows = rows;
      this.side = side;
    }

    @Override
    public boolean hasNext() {
      while (found == null && rows.hasNext()) {
        TimedRow row = rows.next();
        found = row.order() == null ? row : null;
      }
      return found != null;
    }

    @Override
    public Row next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      byte[] payload = found.payload();
      found = null;
      return side == LEFT ? RowFactory.create(payload, null) : RowFactory.create(null, payload);
    }
  }

  /** Sets one alarm, for the first row to be forgotten; an earlier alarm that is set already does no harm. */
  private void setAlarm(IntervalState state) {
    long first = state.firstTime();
    if (first == TimedRows.NO_TIME) {
      return;
    }
    long millis = -Math.floorDiv(-(first + within), MICROS_PER_MILLI);
    if (millis < state.alarm) {
      alarm(millis);
      state.alarm = millis;
    }
  }
}
