package dsdagster.join;

import dsdagster.alarm.AlarmedProcessor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.sql.types.StructType;

/**
 * One key at a time. Rows come packed: the key's columns, then {@code side}, {@code ts}, {@code ord}, {@code payload}.
 *
 * <p>Rules: a stream row leaves as soon as time has passed it (at once when late or in immediate mode), joined to the
 * version valid at its time; versions of a batch are taken in before its stream rows; output of a key is ordered by time
 * and position. Time stands strictly after everything it has passed: a row at the watermark still waits.
 */
final class TemporalJoinProcessor extends AlarmedProcessor {
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
      TemporalJoinSettings settings, StructType keyType, LongAccumulator lateRows, LongAccumulator lateVersions) {
    super(keyType, !settings.immediate());
    this.settings = settings;
    this.sideColumn = keyType.size();
    this.lateRows = lateRows;
    this.lateVersions = lateVersions;
  }

  @Override
  protected void open() {
    stored = getHandle().getValueState("join", Encoders.BINARY(), TTLConfig.NONE());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    List<Row> output = new ArrayList<>();
    List<Entry> arrived = new ArrayList<>();
    List<Entry> versions = new ArrayList<>();
    boolean isAlarm = !rows.hasNext();
    while (rows.hasNext()) {
      sort(rows.next(), arrived, versions, output);
    }
    if (arrived.isEmpty() && versions.isEmpty() && !isAlarm) {
      return output.iterator();
    }
    byte[] before = stored.get();
    if (before == null && isAlarm) {
      return output.iterator();
    }
    long time = time(watermark);
    KeyState state = KeyState.decode(before);
    boolean changed = takeAlarm(state, watermark, isAlarm) | !versions.isEmpty();
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
    return output.iterator();
  }

  /** An alarm that would ring behind these rows, in this very batch, is not needed: what is due leaves with them. */
  private boolean takeAlarm(KeyState state, long watermark, boolean isAlarm) {
    if (settings.immediate() || state.alarm > watermark) {
      return false;
    }
    if (!isAlarm) {
      silence();
    }
    state.alarm = KeyState.NO_ALARM;
    return true;
  }

  private long time(long watermark) {
    return settings.immediate() || watermark <= 0 ? NO_TIME : (watermark + settings.edgeMillis()) * MICROS_PER_MILLI;
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
    if (time == NO_TIME) {
      return;
    }
    lateRows.add(arrived.stream().filter(row -> row.ts() < time).count());
    lateVersions.add(versions.stream().filter(version -> version.ts() < time).count());
  }

  /** Emits what is due, forgets what has ended, sets the alarm. Returns whether the state changed. */
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
    return setAlarm(state) || changed;
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
   * One alarm for the first moment something happens; an earlier one that is set already does no harm. It rings when
   * time has reached it, so it stands in the millisecond after the moment.
   */
  private boolean setAlarm(KeyState state) {
    if (settings.immediate()) {
      return false;
    }
    long next = KeyState.NO_ALARM;
    if (!state.waiting.isEmpty()) {
      next = state.waiting.get(0).ts();
    } else if (state.versions.size() == 1 && state.versions.get(0).isDelete()) {
      next = state.versions.get(0).ts() + settings.retentionMicros();
    }
    if (next == KeyState.NO_ALARM) {
      return false;
    }
    long millis = Math.max(0, Math.floorDiv(next, MICROS_PER_MILLI) - settings.edgeMillis()) + 1;
    if (state.alarm <= millis) {
      return false;
    }
    alarm(millis);
    state.alarm = millis;
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
