package dsdagster.join;

import dsdagster.alarm.AlarmedProcessor;
import dsdagster.join.IntervalState.Kept;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;

/**
 * One key at a time. Rows come packed: the key's columns, then {@code side}, {@code ts}, {@code payload}.
 *
 * <p>Rules: a row meets all of the other side that are kept, then it is kept itself, so that each pair leaves once. Time
 * that has reached a moment has passed the rows stamped with it: Spark drops what comes for it later.
 */
final class IntervalJoinProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;
  private static final int LEFT = 0;

  private final int sideColumn;
  private final boolean lonelyLeft;
  private final boolean lonelyRight;
  private final long within;
  private transient ValueState<byte[]> stored;

  IntervalJoinProcessor(StructType keyType, boolean lonelyLeft, boolean lonelyRight, long withinMicros) {
    super(keyType, true);
    this.sideColumn = keyType.size();
    this.lonelyLeft = lonelyLeft;
    this.lonelyRight = lonelyRight;
    this.within = withinMicros;
  }

  @Override
  protected void open() {
    stored = getHandle().getValueState("rows", Encoders.BINARY(), TTLConfig.NONE());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    List<Row> output = new ArrayList<>();
    byte[] before = stored.get();
    boolean isAlarm = !rows.hasNext();
    if (before == null && isAlarm) {
      return output.iterator();
    }
    IntervalState state = IntervalState.decode(before);
    if (state.alarm <= watermark) {
      state.alarm = IntervalState.NO_ALARM;
      if (!isAlarm) {
        silence(); // it would ring behind these rows, in this very batch
      }
    }
    boolean isMatchable = isMatchable(key);
    while (rows.hasNext()) {
      take(rows.next(), state, isMatchable, output);
    }
    forget(state, watermark * MICROS_PER_MILLI, output);
    setAlarm(state);
    if (!state.isEmpty()) {
      stored.update(state.encode());
    } else if (before != null) {
      stored.clear();
    }
    return output.iterator();
  }

  private void take(Row row, IntervalState state, boolean isMatchable, List<Row> output) {
    int side = row.getInt(sideColumn);
    Kept kept = new Kept(row.getLong(sideColumn + 1), row.getAs(sideColumn + 2));
    if (isMatchable) {
      List<Kept> others = state.sides.get(1 - side);
      for (int i = IntervalState.first(others, kept.ts - within); i < others.size(); i++) {
        Kept other = others.get(i);
        if (other.ts > kept.ts + within) {
          break;
        }
        output.add(side == LEFT ? pair(kept, other) : pair(other, kept));
      }
    }
    state.keep(side, kept);
  }

  private static Row pair(Kept left, Kept right) {
    left.isMatched = true;
    right.isMatched = true;
    return RowFactory.create(left.payload, right.payload);
  }

  private boolean isMatchable(Row key) {
    for (int i = 0; i < sideColumn; i++) {
      if (key.isNullAt(i)) {
        return false;
      }
    }
    return true;
  }

  /** Rows that nothing can join any more. */
  private void forget(IntervalState state, long time, List<Row> output) {
    for (Kept row : state.takeUntil(LEFT, time - within)) {
      if (lonelyLeft && !row.isMatched) {
        output.add(RowFactory.create(row.payload, null));
      }
    }
    for (Kept row : state.takeUntil(1 - LEFT, time - within)) {
      if (lonelyRight && !row.isMatched) {
        output.add(RowFactory.create(null, row.payload));
      }
    }
  }

  /** One alarm for the first row that is forgotten; an earlier one that is set already does no harm. */
  private void setAlarm(IntervalState state) {
    long first = state.firstTime();
    if (first == IntervalState.NO_TIME) {
      return;
    }
    long millis = -Math.floorDiv(-(first + within), MICROS_PER_MILLI);
    if (millis < state.alarm) {
      alarm(millis);
      state.alarm = millis;
    }
  }
}
