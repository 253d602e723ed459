package dsdagster.join;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.util.LongAccumulator;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One key at a time. Rows come packed: the key's columns, then {@code side}, {@code ts}, {@code ord}, {@code payload}.
 *
 * <p>Rules: a stream row leaves as soon as time has passed it (at once when late or in immediate mode), joined to the
 * version valid at its time; versions of a batch are taken in before its stream rows; output of a key is ordered by time
 * and position. Time stands strictly after everything it has passed: a row at the watermark still waits.
 */
final class TemporalJoinProcessor extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;
  /** Sides as the packing writes them. */
  static final int STREAM = 0;
  static final int VERSION = 1;
  static final int DELETE = 2;
  static final int UNMATCHABLE = 3;

  private static final long NO_TIME = Long.MIN_VALUE;
  private static final long MICROS_PER_MILLI = 1000;

  private final TemporalJoinSettings settings;
  private final int sideColumn;
  private final LongAccumulator lateRows;
  private final LongAccumulator lateVersions;
  private transient ValueState<byte[]> stored;

  TemporalJoinProcessor(
      TemporalJoinSettings settings, int keys, LongAccumulator lateRows, LongAccumulator lateVersions) {
    this.settings = settings;
    this.sideColumn = keys;
    this.lateRows = lateRows;
    this.lateVersions = lateVersions;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    stored = getHandle().getValueState("join", Encoders.BINARY(), TTLConfig.NONE());
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
    long time = time(times);
    List<Row> output = new ArrayList<>();
    List<Entry> arrived = new ArrayList<>();
    List<Entry> versions = new ArrayList<>();
    while (rows.hasNext()) {
      sort(rows.next(), arrived, versions, output);
    }
    if (arrived.isEmpty() && versions.isEmpty()) {
      return CollectionConverters.asScala(output.iterator());
    }
    byte[] before = stored.get();
    KeyState state = KeyState.decode(before);
    boolean changed = takeTimer(state, times) | !versions.isEmpty();
    versions.forEach(state::addVersion);
    countLate(arrived, versions, time);
    if (settings.immediate()) {
      Collections.sort(arrived, Entry.ORDER);
      emit(arrived, state, output);
      arrived = List.of();
    }
    changed |= settle(state, arrived, time, output);
    if (changed) {
      store(state, before != null);
    }
    return CollectionConverters.asScala(output.iterator());
  }

  @Override
  public Iterator<Row> handleExpiredTimer(Row key, TimerValues times, ExpiredTimerInfo expired) {
    List<Row> output = new ArrayList<>();
    byte[] before = stored.get();
    if (before == null) {
      return CollectionConverters.asScala(output.iterator());
    }
    KeyState state = KeyState.decode(before);
    boolean changed = false;
    if (state.timer <= expired.getExpiryTimeInMs()) {
      state.timer = KeyState.NO_TIMER;
      changed = true;
    }
    changed |= settle(state, List.of(), time(times), output);
    if (changed) {
      store(state, true);
    }
    return CollectionConverters.asScala(output.iterator());
  }

  /** A timer that would fire behind these rows, in this very batch, is not needed: what is due leaves with them. */
  private boolean takeTimer(KeyState state, TimerValues times) {
    if (settings.immediate() || state.timer > times.getCurrentWatermarkInMs()) {
      return false;
    }
    getHandle().deleteTimer(state.timer);
    state.timer = KeyState.NO_TIMER;
    return true;
  }

  private long time(TimerValues times) {
    if (settings.immediate()) {
      return NO_TIME;
    }
    long millis = times.getCurrentWatermarkInMs();
    return millis <= 0 ? NO_TIME : (millis + settings.edgeMillis()) * MICROS_PER_MILLI;
  }

  private void sort(Row row, List<Entry> arrived, List<Entry> versions, List<Row> output) {
    long ts = row.getLong(sideColumn + 1);
    byte[] order = row.getAs(sideColumn + 2);
    byte[] payload = row.getAs(sideColumn + 3);
    switch (row.getInt(sideColumn)) {
      case STREAM -> arrived.add(new Entry(ts, order, payload));
      case VERSION -> versions.add(new Entry(ts, order, payload));
      case DELETE -> versions.add(new Entry(ts, order, null));
      default -> output.add(RowFactory.create(payload, null));
    }
  }

  private void countLate(List<Entry> arrived, List<Entry> versions, long time) {
    lateRows.add(arrived.stream().filter(row -> row.ts() < time).count());
    lateVersions.add(versions.stream().filter(version -> version.ts() < time).count());
  }

  /** Emits what is due, forgets what has ended, sets the timer. Returns whether the state changed. */
  private boolean settle(KeyState state, List<Entry> arrived, long time, List<Row> output) {
    int waiting = state.waiting.size();
    state.addWaiting(arrived);
    List<Entry> due = state.takeDue(time);
    emit(due, state, output);
    boolean changed = !due.isEmpty() && waiting > 0 || state.waiting.size() != waiting;
    long horizon = settings.immediate() && !state.versions.isEmpty()
        ? state.versions.get(state.versions.size() - 1).ts() + 1
        : time;
    changed |= state.prune(horizon, settings.retentionMicros(), settings.mostVersions());
    return setTimer(state) || changed;
  }

  private void emit(List<Entry> rows, KeyState state, List<Row> output) {
    for (Entry row : rows) {
      Entry version = state.versionAt(row.ts());
      if (version != null) {
        output.add(RowFactory.create(row.payload(), version.payload()));
      } else if (settings.outer()) {
        output.add(RowFactory.create(row.payload(), null));
      }
    }
  }

  /**
   * One timer for the first moment something happens; an earlier one that is set already does no harm. Spark fires a
   * timer when time has reached it and forgets it afterwards, so it stands in the millisecond after the moment.
   */
  private boolean setTimer(KeyState state) {
    if (settings.immediate()) {
      return false;
    }
    long next = KeyState.NO_TIMER;
    if (!state.waiting.isEmpty()) {
      next = state.waiting.get(0).ts();
    } else if (state.versions.size() == 1 && state.versions.get(0).isDelete()) {
      next = state.versions.get(0).ts() + settings.retentionMicros();
    }
    if (next == KeyState.NO_TIMER) {
      return false;
    }
    long millis = Math.max(0, Math.floorDiv(next, MICROS_PER_MILLI) - settings.edgeMillis()) + 1;
    if (state.timer <= millis) {
      return false;
    }
    getHandle().registerTimer(millis);
    state.timer = millis;
    return true;
  }

  private void store(KeyState state, boolean existed) {
    if (!state.isEmpty()) {
      stored.update(state.encode());
    } else if (existed) {
      stored.clear();
    }
  }
}
