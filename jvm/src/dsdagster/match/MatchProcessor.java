package dsdagster.match;

import dsdagster.Conditions;
import dsdagster.alarm.AlarmedProcessor;
import dsdagster.state.Buckets;
import dsdagster.state.Parts;
import dsdagster.state.TimedRow;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.TypeUtils$;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.math.Ordering;

/**
 * One key at a time. Rows arrive packed: the key's columns, then {@code ts}, {@code ord}, {@code row}, {@code et}.
 *
 * <p>Rules: a row is searched when the watermark has passed it, in the order of time, then of the further columns of
 * ORDER BY, then of its position. A match is emitted as soon as it is decided, at the latest when the watermark
 * reaches the end of WITHIN after its first row. A key without a row for the time to live is forgotten with its open
 * searches, so no match spans such a silence, whenever it is noticed. The watermark has passed rows with exactly its
 * time: Spark drops later ones.
 */
final class MatchProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long NO_TIME = Long.MIN_VALUE;
  private static final long MICROS_PER_MILLI = 1000;

  private final MatchSettings settings;
  private final Conditions conditions;
  private final StructType rowType;
  private final StructType valueTypes;
  private final int keys;
  private transient ValueState<byte[]> stored;
  private transient Matcher matcher;
  private transient Comparator<TimedRow> order;
  private transient Buckets buckets;
  private transient UnsafeProjection packing;

  MatchProcessor(
      MatchSettings settings, Conditions conditions, StructType rowType, StructType valueTypes, StructType keyType) {
    super(keyType, true);
    this.settings = settings;
    this.conditions = conditions;
    this.rowType = rowType;
    this.valueTypes = valueTypes;
    this.keys = keyType.size();
  }

  @Override
  protected void open() {
    stored = getHandle().getValueState("match", Encoders.BINARY(), TTLConfig.NONE());
    buckets = new Buckets(getHandle());
    matcher = new Matcher(settings, conditions, rowType);
    order = order();
    packing = UnsafeProjection$.MODULE$.create(valueTypes);
  }

  private Comparator<TimedRow> order() {
    Comparator<TimedRow> made = TimedRow.BY_TIME;
    for (MatchSettings.RowOrder one : settings.order()) {
      DataType type = rowType.fields()[one.field()].dataType();
      Ordering<Object> values = TypeUtils$.MODULE$.getInterpretedOrdering(type);
      Comparator<Object> nullsFirst = Comparator.nullsFirst(values::compare);
      Comparator<TimedRow> next =
          (left, right) -> nullsFirst.compare(field(left, one.field(), type), field(right, one.field(), type));
      made = made.thenComparing(one.descending() ? next.reversed() : next);
    }
    return made.thenComparing(TimedRow::order, Arrays::compareUnsigned);
  }

  private Object field(TimedRow row, int field, DataType type) {
    UnsafeRow fields = new MatchRow(0, row.ts(), row.payload()).fields(rowType.size());
    return fields.isNullAt(field) ? null : fields.get(field, type);
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    List<TimedRow> arrived = new ArrayList<>();
    while (rows.hasNext()) {
      Row row = rows.next();
      arrived.add(new TimedRow(row.getLong(keys), row.getAs(keys + 1), row.getAs(keys + 2)));
    }
    byte[] before = stored.get();
    if (before == null && arrived.isEmpty()) {
      return Collections.emptyIterator();
    }
    KeyState state = KeyState.decode(before, buckets, order);
    if (state.alarm <= watermark) {
      state.alarm = KeyState.NO_ALARM;
      if (!arrived.isEmpty()) {
        silence(); // otherwise the alarm would be due after these rows, in this batch
      }
    }
    state.await(arrived, order);
    Visit visit = new Visit(key, state, time(watermark), before != null);
    return new Parts(visit::next);
  }

  /** Time before which all rows have arrived, for a watermark. */
  private static long time(long watermark) {
    return watermark <= 0 ? NO_TIME : watermark * MICROS_PER_MILLI + 1;
  }

  /** The lowest watermark whose {@link #time} has passed a moment. */
  private static long millisBehind(long micros) {
    return Math.max(1, Math.floorDiv(micros + MICROS_PER_MILLI - 1, MICROS_PER_MILLI));
  }

  /** Emits the matches of a key, from one silence after which it is forgotten to the next; then stores the key. */
  private final class Visit {
    private final Row key;
    private final KeyState state;
    private final long time;
    private final boolean existed;
    private boolean isSearching;
    private boolean isForgotten;
    private boolean isLast;

    /** @param time rows before this time are searched */
    Visit(Row key, KeyState state, long time, boolean existed) {
      this.key = key;
      this.state = state;
      this.time = time;
      this.existed = existed;
    }

    Iterator<Row> next() {
      do {
        Path found = isSearching ? matcher.next() : null;
        if (found != null) {
          return List.of(made(key, found)).iterator();
        }
        if (isForgotten) {
          state.forget();
        }
      } while (goOn());
      setAlarm(state);
      store(state, existed);
      return null;
    }

    /** Takes the rows up to the next silence and begins to search them; returns whether there is anything to search. */
    private boolean goOn() {
      if (isLast) {
        return false;
      }
      long started = state.rows.end();
      long until = forgottenAt(state);
      while (state.waiting.firstTime() < Math.min(time, until)) {
        state.takeNext();
        until = forgottenAt(state);
      }
      long known = Math.min(state.waiting.firstTime(), time);
      long passed = Math.min(known, until);
      isSearching = state.rows.end() > started || !state.searches.isEmpty() && passed >= end(state);
      if (isSearching) {
        matcher.begin(state, started, passed);
      }
      isForgotten = until <= known;
      isLast = state.waiting.firstTime() >= time;
      return true;
    }
  }

  /** Time at which a key is forgotten if no row arrives. */
  private long forgottenAt(KeyState state) {
    boolean never = state.rows.isEmpty() || !settings.forgets();
    return never ? Long.MAX_VALUE : state.rows.lastTime() + settings.ttlMicros();
  }

  /** End of WITHIN of the first search. */
  private long end(KeyState state) {
    return settings.isLimited() ? state.rows.firstTime() + settings.withinMicros() : Long.MAX_VALUE;
  }

  private Row made(Row key, Path path) {
    GenericInternalRow values = new GenericInternalRow(valueTypes.size());
    for (int i = 0; i < valueTypes.size(); i++) {
      values.update(i, path.value(i));
    }
    Object[] found = new Object[keys + 2];
    for (int i = 0; i < keys; i++) {
      found[i] = key.get(i);
    }
    found[keys] = packing.apply(values).copy().getBytes(); // the projection reuses its row
    found[keys + 1] = path.time();
    return RowFactory.create(found);
  }

  /**
   * Sets one alarm, for the first moment at which a row is due, a search ends or the key is forgotten; an earlier
   * alarm that is set already does no harm.
   */
  private void setAlarm(KeyState state) {
    long next = KeyState.NO_ALARM;
    if (!state.waiting.isEmpty()) {
      next = millisBehind(state.waiting.firstTime());
    }
    if (!state.searches.isEmpty() && settings.isLimited()) {
      next = Math.min(next, millisBehind(end(state) - 1));
    }
    if (!state.rows.isEmpty() && settings.forgets()) {
      next = Math.min(next, millisBehind(forgottenAt(state) - 1));
    }
    if (next < state.alarm) {
      alarm(next);
      state.alarm = next;
    }
  }

  private void store(KeyState state, boolean existed) {
    if (!state.isEmpty()) {
      stored.update(state.encode());
    } else if (existed) {
      stored.clear();
    }
  }
}
