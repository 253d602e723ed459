package dsdagster.delta;

import dsdagster.Expressions;
import dsdagster.Waiting;
import dsdagster.alarm.AlarmedProcessor;
import dsdagster.delta.OverState.Passing;
import java.util.ArrayList;
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
 * One partition at a time. Rows come packed: the key's columns, then {@code et}, {@code ts}, {@code arguments},
 * {@code payload}. State: an {@link OverState}, and the totals of an unbounded frame.
 *
 * <p>Rules: rows leave in order of time, those of one time in order of their bytes, so that a replayed batch gives the
 * same; Spark has dropped what is late before it comes here. A partition without a row for the time to live begins anew
 * with its next row, whether its state has been forgotten by then or not: results do not depend on batches.
 */
final class EventOverProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;

  private final ArrayList<OverCall> calls;
  private final int timeColumn;
  private final StructType arguments;
  private final boolean byTime;
  private final long before;
  private final long ttlMicros;
  private transient ValueState<byte[]> stored;
  private transient ValueState<Row> totals;
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
    if (before < 0) {
      totals = getHandle().getValueState("totals", Encoders.row(Frame.storedSchema(calls)), TTLConfig.NONE());
    }
    reader = Expressions.reader(arguments);
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    boolean isAlarm = !rows.hasNext();
    List<Passing> arrived = new ArrayList<>();
    while (rows.hasNext()) {
      Row row = rows.next();
      if (!row.isNullAt(timeColumn)) {
        arrived.add(
            new Passing(row.getLong(timeColumn), row.getAs(timeColumn + 1), row.getAs(timeColumn + 2)));
      }
    }
    List<Row> output = new ArrayList<>();
    byte[] known = isAlarm || !arrived.isEmpty() ? stored.get() : null;
    if (known == null && arrived.isEmpty()) {
      return output.iterator();
    }
    OverState state = OverState.decode(known);
    state.await(arrived);
    if (state.alarm <= watermark) {
      if (!isAlarm) {
        silence(); // it would ring behind these rows, in this very batch
      }
      pass(state, watermark, output);
    }
    setAlarm(state);
    store(state, known != null);
    return output.iterator();
  }

  /** Rows that time has reached leave, and the partition is forgotten when its time is up; the alarm has rung. */
  private void pass(OverState state, long watermark, List<Row> output) {
    state.alarm = OverState.NO_ALARM;
    long time = watermark * MICROS_PER_MILLI;
    List<Passing> due = Waiting.takeBefore(state.waiting, Passing::ts, time + 1);
    if (!due.isEmpty()) {
      keep(emit(due, state, output), state);
    }
    if (isOver(state, time + 1)) {
      forget(state);
    }
  }

  /** Whether a row of that time begins the partition anew. */
  private boolean isOver(OverState state, long ts) {
    return state.passed != OverState.NO_ROW && ts - state.passed > ttlMicros;
  }

  private void forget(OverState state) {
    state.passed = OverState.NO_ROW;
    state.frame = List.of();
    if (before < 0) {
      totals.clear();
    }
  }

  /**
   * One alarm: for the first row that waits, in the millisecond at which time has passed it; without one, for the end of
   * the time to live.
   */
  private void setAlarm(OverState state) {
    long next = OverState.NO_ALARM;
    if (!state.waiting.isEmpty()) {
      next = state.waiting.get(0).ts();
    } else if (ttlMicros != EventOver.NEVER && state.passed != OverState.NO_ROW) {
      next = state.passed + ttlMicros;
    }
    long due = next == OverState.NO_ALARM ? next : -Math.floorDiv(-next, MICROS_PER_MILLI);
    if (due < state.alarm) {
      alarm(due);
      state.alarm = due;
    }
  }

  private void store(OverState state, boolean existed) {
    if (!state.isEmpty()) {
      stored.update(state.encode());
    } else if (existed) {
      stored.clear();
    }
  }

  private Frame load(OverState state) {
    Frame frame = new Frame(calls, byTime, before);
    Row known = before < 0 ? totals.get() : null;
    if (known != null) {
      frame.restore(known);
    }
    state.frame.forEach(row -> frame.add(row, reader.apply(row.arguments())));
    return frame;
  }

  private void keep(Frame frame, OverState state) {
    if (before < 0) {
      totals.update(frame.stored());
    } else {
      state.frame = frame.rows();
    }
  }

  private Frame emit(List<Passing> rows, OverState state, List<Row> output) {
    Frame frame = load(state);
    int next = 0;
    while (next < rows.size()) {
      int from = next;
      long ts = rows.get(from).ts();
      frame = isOver(state, ts) ? new Frame(calls, byTime, before) : frame;
      state.passed = ts;
      do {
        Passing row = rows.get(next);
        frame.add(row, reader.apply(row.arguments()));
        next++;
      } while (byTime && next < rows.size() && rows.get(next).ts() == ts);
      frame.reach(ts);
      for (Passing row : rows.subList(from, next)) {
        Object[] found = new Object[1 + calls.size()];
        found[0] = row.row();
        for (int i = 0; i < calls.size(); i++) {
          found[i + 1] = frame.result(i);
        }
        output.add(RowFactory.create(found));
      }
    }
    return frame;
  }
}
