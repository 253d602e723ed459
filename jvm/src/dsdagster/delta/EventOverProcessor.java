package dsdagster.delta;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * One partition at a time. State: the rows that time has not passed, the rows of a bounded frame or the totals of an
 * unbounded one, and the one timer that is set.
 *
 * <p>Rules: rows leave in order of time, those of one time in order of their bytes, so that a replayed batch gives the
 * same; Spark has dropped what is late before it comes here.
 */
final class EventOverProcessor extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;

  private final ArrayList<OverCall> calls;
  private final int keys;
  private final StructType arguments;
  private final boolean byTime;
  private final long before;
  private transient ListState<Row> waiting;
  private transient ListState<Row> reached;
  private transient ValueState<Row> totals;
  private transient ValueState<Long> timer;

  EventOverProcessor(List<OverCall> calls, int keys, StructType arguments, boolean byTime, long before) {
    this.calls = new ArrayList<>(calls);
    this.keys = keys;
    this.arguments = arguments;
    this.byTime = byTime;
    this.before = before;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    StructType timed = new StructType().add("ts", DataTypes.LongType).add("arguments", arguments);
    StructType row = timed.add("row", DataTypes.BinaryType);
    waiting = getHandle().getListState("waiting", Encoders.row(row), TTLConfig.NONE());
    timer = getHandle().getValueState("timer", Encoders.LONG(), TTLConfig.NONE());
    if (before >= 0) {
      reached = getHandle().getListState("frame", Encoders.row(timed), TTLConfig.NONE());
    } else {
      totals = getHandle().getValueState("totals", Encoders.row(Frame.storedSchema(calls)), TTLConfig.NONE());
    }
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
    List<Row> arrived = new ArrayList<>();
    long first = Long.MAX_VALUE;
    while (rows.hasNext()) {
      Row row = rows.next();
      if (row.isNullAt(keys + 1)) {
        continue;
      }
      Object[] values = new Object[arguments.size()];
      for (int i = 0; i < values.length; i++) {
        values[i] = row.get(keys + 2 + i);
      }
      long ts = row.getLong(keys + 1);
      arrived.add(RowFactory.create(ts, RowFactory.create(values), row.getAs(keys + 2 + values.length)));
      first = Math.min(first, ts);
    }
    if (!arrived.isEmpty()) {
      waiting.appendList(arrived.toArray(new Row[0]));
      Long set = timer.get();
      if (set == null || set > due(first)) {
        if (set != null) {
          getHandle().deleteTimer(set);
        }
        set(first);
      }
    }
    return Keyed.iterator(new ArrayList<>());
  }

  /** The millisecond at which time has passed a row. */
  private static long due(long ts) {
    return -Math.floorDiv(-ts, MICROS_PER_MILLI);
  }

  private void set(long ts) {
    getHandle().registerTimer(due(ts));
    timer.update(due(ts));
  }

  @Override
  public Iterator<Row> handleExpiredTimer(Row key, TimerValues times, ExpiredTimerInfo expired) {
    long time = times.getCurrentWatermarkInMs() * MICROS_PER_MILLI;
    List<Row> rows = new ArrayList<>();
    Iterator<Row> all = waiting.get();
    while (all.hasNext()) {
      rows.add(all.next());
    }
    rows.sort((left, right) -> {
      int order = Long.compare(left.getLong(0), right.getLong(0));
      return order != 0 ? order : Arrays.compareUnsigned(left.<byte[]>getAs(2), right.<byte[]>getAs(2));
    });
    int due = 0;
    while (due < rows.size() && rows.get(due).getLong(0) <= time) {
      due++;
    }
    List<Row> output = new ArrayList<>(due);
    if (due > 0) {
      Frame frame = load();
      emit(rows.subList(0, due), frame, output);
      store(frame);
    }
    keep(rows.subList(due, rows.size()));
    return Keyed.iterator(output);
  }

  private void keep(List<Row> rows) {
    if (rows.isEmpty()) {
      waiting.clear();
      timer.clear();
      return;
    }
    waiting.put(rows.toArray(new Row[0]));
    set(rows.get(0).getLong(0));
  }

  private Frame load() {
    Frame frame = new Frame(calls, byTime, before);
    if (before < 0) {
      Row stored = totals.get();
      if (stored != null) {
        frame.restore(stored);
      }
      return frame;
    }
    Iterator<Row> rows = reached.get();
    while (rows.hasNext()) {
      Row row = rows.next();
      frame.add(row.getLong(0), row.getStruct(1));
    }
    return frame;
  }

  private void store(Frame frame) {
    if (before < 0) {
      totals.update(frame.stored());
    } else {
      reached.put(frame.rows().toArray(new Row[0]));
    }
  }

  private void emit(List<Row> rows, Frame frame, List<Row> output) {
    int next = 0;
    while (next < rows.size()) {
      int from = next;
      long ts = rows.get(from).getLong(0);
      do {
        frame.add(ts, rows.get(next).getStruct(1));
        next++;
      } while (byTime && next < rows.size() && rows.get(next).getLong(0) == ts);
      frame.reach(ts);
      for (Row row : rows.subList(from, next)) {
        Object[] found = new Object[1 + calls.size()];
        found[0] = row.get(2);
        for (int i = 0; i < calls.size(); i++) {
          found[i + 1] = frame.result(i);
        }
        output.add(RowFactory.create(found));
      }
    }
  }
}
