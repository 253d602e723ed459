package dsdagster.join;

import dsdagster.alarm.AlarmedProcessor;
import dsdagster.state.Buckets;
import dsdagster.state.Parts;
import dsdagster.state.TimedRow;
import dsdagster.time.PassedTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.sql.types.StructType;

/**
 * One key at a time. Rows arrive packed: the key's columns, then {@code side}, {@code ts}, {@code ord}, {@code
 * payload}.
 *
 * <p>Rules: a stream row is emitted as soon as the watermark has passed it (at once if it is late or in immediate
 * mode), joined with the version valid at its time. Versions of a batch are added before its stream rows are joined.
 * The output of a key is ordered by time and position. A row with exactly the time of the watermark still waits.
 */
final class TemporalJoinProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  /** Values of {@code side} in packed rows. */
  static final int STREAM = 0;
  static final int VERSION = 1;
  static final int DELETE = 2;
  static final int UNMATCHABLE = 3;

  private static final long NO_TIME = Long.MIN_VALUE;
  private static final long MICROS_PER_MILLI = 1000;

  private final TemporalJoinSettings settings;
  private final PassedTime passed;
  private final int sideColumn;
  private final LongAccumulator lateRows;
  private final LongAccumulator lateVersions;
  private transient ValueState<byte[]> stored;
  private transient Buckets buckets;

  TemporalJoinProcessor(
      TemporalJoinSettings settings,
      StructType keyType,
      PassedTime passed,
      LongAccumulator lateRows,
      LongAccumulator lateVersions) {
    super(keyType, !settings.immediate());
    this.settings = settings;
    this.passed = passed;
    this.sideColumn = keyType.size();
    this.lateRows = lateRows;
    this.lateVersions = lateVersions;
  }

  @Override
  protected void open() {
    stored = getHandle().getValueState("join", Encoders.BINARY(), TTLConfig.NONE());
    buckets = new Buckets(getHandle());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    List<Row> unmatchable = new ArrayList<>();
    List<TimedRow> arrived = new ArrayList<>();
    List<TimedRow> versions = new ArrayList<>();
    boolean isAlarm = !rows.hasNext();
    while (rows.hasNext()) {
      sort(rows.next(), arrived, versions, unmatchable);
    }
    if (arrived.isEmpty() && versions.isEmpty() && !isAlarm) {
      return unmatchable.iterator();
    }
    byte[] before = stored.get();
    if (before == null && isAlarm) {
      return Collections.emptyIterator();
    }
    long time = time(watermark);
    KeyState state = KeyState.decode(before, buckets);
    boolean changed = takeAlarm(state, watermark, isAlarm) | !versions.isEmpty();
    versions.forEach(state::addVersion);
    countLate(arrived, versions);
    Visit visit = new Visit(state, unmatchable, arrived, time, changed, before != null);
    return new Parts(visit::next);
  }

  /** Takes the alarm if it is due; returns whether it was. With new rows it is silenced: they emit the due rows too. */
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

  private void sort(Row row, List<TimedRow> arrived, List<TimedRow> versions, List<Row> output) {
    long ts = row.getLong(sideColumn + 1);
    byte[] order = row.getAs(sideColumn + 2);
    byte[] payload = row.getAs(sideColumn + 3);
    switch (row.getInt(sideColumn)) {
      case STREAM -> arrived.add(new TimedRow(ts, order, payload));
      case VERSION -> versions.add(new TimedRow(ts, order, payload));
      case DELETE -> versions.add(new TimedRow(ts, order, null));
      default -> output.add(RowFactory.create(payload, null));
    }
  }

  /** Counts rows as late if event time had passed them before this batch. */
  private void countLate(List<TimedRow> arrived, List<TimedRow> versions) {
    if (settings.immediate() || passed.micros() <= 0) {
      return;
    }
    long time = passed.micros() + settings.edgeMillis() * MICROS_PER_MILLI;
    lateRows.add(arrived.stream().filter(row -> row.ts() < time).count());
    lateVersions.add(versions.stream().filter(version -> version.ts() < time).count());
  }

  /**
   * Sets one alarm for the first moment at which a row is emitted or a version forgotten; an earlier alarm that is set
   * already does no harm. It rings when the watermark reaches it, so it is set to the millisecond after the moment.
   */
  private boolean setAlarm(KeyState state) {
    if (settings.immediate()) {
      return false;
    }
    long next = KeyState.NO_ALARM;
    if (!state.waiting.isEmpty()) {
      next = state.waiting.firstTime();
    } else if (state.versions.size() == 1 && KeyState.isDelete(state.versions.first())) {
      next = state.versions.firstTime() + settings.retentionMicros();
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

  /** Emits the rows of a key: rows with a null in their key, then due rows; then forgets ended versions. */
  private final class Visit {
    private final KeyState state;
    private final Iterator<Iterator<Row>> parts;
    private final long waiting;
    private final boolean existed;
    private final long time;
    private boolean changed;

    Visit(
        KeyState state,
        List<Row> unmatchable,
        List<TimedRow> arrived,
        long time,
        boolean changed,
        boolean existed) {
      this.state = state;
      this.waiting = state.waiting.size();
      this.existed = existed;
      this.time = time;
      this.changed = changed;
      this.parts = List.of(unmatchable.iterator(), new Joined(state, due(arrived))).iterator();
    }

    private Iterator<TimedRow> due(List<TimedRow> arrived) {
      if (settings.immediate()) {
        arrived.sort(TimedRow.BY_ORDER);
        return arrived.iterator();
      }
      state.await(arrived);
      changed |= waiting > 0 && state.waiting.firstTime() < time;
      return time == NO_TIME ? Collections.emptyIterator() : state.waiting.takeUntil(time - 1);
    }

    Iterator<Row> next() {
      if (parts.hasNext()) {
        return parts.next();
      }
      finish();
      return null;
    }

    private void finish() {
      changed |= state.waiting.size() != waiting;
      long horizon = settings.immediate() && !state.versions.isEmpty() ? state.versions.last().ts() + 1 : time;
      changed |= state.prune(horizon, settings.retentionMicros(), settings.mostVersions());
      changed |= setAlarm(state);
      if (changed && !state.isEmpty()) {
        stored.update(state.encode());
      } else if (changed && existed) {
        stored.clear();
      }
    }
  }

  /** Rows with the version valid at their time; rows without a version only in outer joins. */
  private final class Joined implements Iterator<Row> {
    private final KeyState state;
    private final Iterator<TimedRow> rows;
    private Row found;

    Joined(KeyState state, Iterator<TimedRow> rows) {
      this.state = state;
      this.rows = rows;
    }

    @Override
    public boolean hasNext() {
      while (found == null && rows.hasNext()) {
        TimedRow row = rows.next();
        TimedRow version = state.versionAt(row.ts());
        if (version != null) {
          found = RowFactory.create(row.payload(), version.payload());
        } else if (settings.outer()) {
          found = RowFactory.create(row.payload(), null);
        }
      }
      return found != null;
    }

    @Override
    public Row next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      Row row = found;
      found = null;
      return row;
    }
  }
}
