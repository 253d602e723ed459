package dsdagster.delta.over;

import dsdagster.Expressions;
import dsdagster.alarm.AlarmedProcessor;
import dsdagster.state.Buckets;
import dsdagster.state.Parts;
import dsdagster.state.TimedRow;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;

/**
 * One partition at a time. Rows arrive packed: the key's columns, then {@code et}, {@code ts}, {@code arguments},
 * {@code payload}. State: an {@link OverState}, and the totals of an unbounded frame.
 *
 * <p>Rules: rows are emitted in the order of their times, rows with equal times in the order of their bytes, so that a
 * replayed batch gives the same result; Spark has dropped late rows before. A partition without a row for the time to
 * live starts over with its next row, also if its state has not been forgotten yet: results do not depend on batches.
 */
final class EventOverProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;
  /** A time before all rows. */
  private static final long NO_TIME = Long.MIN_VALUE;

  private final ArrayList<OverCall> calls;
  private final int timeColumn;
  private final StructType arguments;
  private final boolean byTime;
  private final long before;
  private final long ttlMicros;
  private transient ValueState<byte[]> stored;
  private transient ValueState<Row> totals;
  private transient Buckets buckets;
  private transient Function<byte[], Row> reader;

  EventOverProcessor(
      List<OverCall> calls,
      StructType keyType,
      StructType arguments,
      boolean byTime,
      long before,
      long ttlMicros) {
    super(keyType, true);
    this.calls = new ArrayList<>(calls);
    this.timeColumn = keyType.size() + 1;
    this.arguments = arguments;
    this.byTime = byTime;
    this.before = before;
    this.ttlMicros = ttlMicros;
  }

  @Override
  protected void open() {
    stored = getHandle().getValueState("over", Encoders.BINARY(), TTLConfig.NONE());
    buckets = new Buckets(getHandle());
    if (before < 0) {
      totals = getHandle().getValueState("totals", Encoders.row(Frame.storedSchema(calls)), TTLConfig.NONE());
    }
    reader = Expressions.reader(arguments);
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    boolean isAlarm = !rows.hasNext();
    List<TimedRow> arrived = new ArrayList<>();
    while (rows.hasNext()) {
      Row row = rows.next();
      if (!row.isNullAt(timeColumn)) {
        arrived.add(
            new TimedRow(row.getLong(timeColumn), row.getAs(timeColumn + 1), row.getAs(timeColumn + 2)));
      }
    }
    byte[] known = isAlarm || !arrived.isEmpty() ? stored.get() : null;
    if (known == null && arrived.isEmpty()) {
      return Collections.emptyIterator();
    }
    OverState state = new OverState(new Frame(calls, byTime, before, reader, buckets), buckets);
    state.decode(known, buckets);
    state.await(arrived);
    long time = NO_TIME;
    if (state.alarm <= watermark) {
      if (!isAlarm) {
        silence(); // otherwise the alarm would be due after these rows, in this batch
      }
      state.alarm = OverState.NO_ALARM;
      time = watermark * MICROS_PER_MILLI;
    }
    Visit visit = new Visit(state, time, known != null);
    return new Parts(visit::next);
  }

  /** Whether the partition starts over with a row of that time. */
  private boolean isOver(OverState state, long ts) {
    return state.passed != OverState.NO_ROW && ts - state.passed > ttlMicros;
  }

  /**
   * Sets one alarm: for the first waiting row, in the millisecond at which the watermark has passed it; without a
   * waiting row, for the end of the time to live.
   */
  private void setAlarm(OverState state) {
    long next = OverState.NO_ALARM;
    if (!state.waiting.isEmpty()) {
      next = state.waiting.firstTime();
    } else if (ttlMicros != EventOver.NEVER && state.passed != OverState.NO_ROW) {
      next = state.passed + ttlMicros;
    }
    long due = next == OverState.NO_ALARM ? next : -Math.floorDiv(-next, MICROS_PER_MILLI);
    if (due < state.alarm) {
      alarm(due);
      state.alarm = due;
    }
  }

  /** Emits the rows of a partition that the watermark has passed, then stores the partition. */
  private final class Visit {
    private final OverState state;
    private final long time;
    private final boolean existed;
    private boolean isBegun;

    /** @param time time up to which rows are emitted */
    Visit(OverState state, long time, boolean existed) {
      this.state = state;
      this.time = time;
      this.existed = existed;
    }

    Iterator<Row> next() {
      if (state.waiting.firstTime() <= time) {
        return emit(state.waiting.firstTime());
      }
      finish();
      return null;
    }

    /** Results of the next row, or of all rows with its time if these are in each other's frames. */
    private Iterator<Row> emit(long ts) {
      Frame frame = state.frame;
      begin();
      if (isOver(state, ts)) {
        frame.clear();
      }
      state.passed = ts;
      List<byte[]> rows = new ArrayList<>();
      do {
        TimedRow row = state.waiting.removeFirst();
        frame.add(row);
        rows.add(row.payload());
      } while (byTime && state.waiting.firstTime() == ts);
      frame.reach(ts);
      Object[] results = new Object[1 + calls.size()];
      for (int i = 0; i < calls.size(); i++) {
        results[i + 1] = frame.result(i);
      }
      return rows.stream().map(row -> output(row, results)).iterator();
    }

    private static Row output(byte[] row, Object[] results) {
      Object[] found = results.clone();
      found[0] = row;
      return RowFactory.create(found);
    }

    private void begin() {
      Row known = !isBegun && before < 0 ? totals.get() : null;
      if (known != null) {
        state.frame.restore(known);
      }
      isBegun = true;
    }

    private void finish() {
      if (time != NO_TIME && isOver(state, time + 1)) {
        state.passed = OverState.NO_ROW;
        state.frame.clear();
        if (before < 0) {
          totals.clear();
        }
      } else if (before < 0 && isBegun) {
        totals.update(state.frame.stored());
      }
      setAlarm(state);
      if (!state.isEmpty()) {
        stored.update(state.encode());
      } else if (existed) {
        stored.clear();
      }
    }
  }
}
