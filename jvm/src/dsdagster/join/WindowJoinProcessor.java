package dsdagster.join;

import dsdagster.alarm.AlarmedProcessor;
import dsdagster.state.Buckets;
import dsdagster.state.Parts;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One window and key at a time. Rows come packed: the key's columns, then {@code side}, {@code payload}.
 *
 * <p>Rules: while time has not passed the end the rows of both sides wait in state; when it has, all pairs leave and the
 * state is gone. Rows that come in that very batch, as those of a closing step below do, join those that waited without
 * going through the state, as long as there are not many.
 */
final class WindowJoinProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;
  private static final int LEFT = 0;
  private static final int RIGHT = 1;

  private final int sideColumn;
  private final boolean[] lonely;
  private transient ValueState<byte[]> stored;
  private transient Buckets buckets;
  /** By side: where the rows of windows are that were open before there were buckets. */
  private transient List<ListState<byte[]>> once;

  WindowJoinProcessor(StructType keyType, boolean lonelyLeft, boolean lonelyRight) {
    super(keyType, true);
    this.sideColumn = keyType.size();
    this.lonely = new boolean[] {lonelyLeft, lonelyRight};
  }

  @Override
  protected void open() {
    once = List.of(list("left"), list("right"));
    stored = getHandle().getValueState("rows", Encoders.BINARY(), TTLConfig.NONE());
    buckets = new Buckets(getHandle());
  }

  private ListState<byte[]> list(String name) {
    return getHandle().getListState(name, Encoders.BINARY(), TTLConfig.NONE());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    byte[] before = stored.get();
    WindowState state = WindowState.decode(before, buckets);
    boolean isKnown = before != null || takeOnce(state);
    while (rows.hasNext()) {
      Row row = rows.next();
      state.add(row.getInt(sideColumn), row.getAs(sideColumn + 1));
    }
    long end = endMillis(key);
    if (watermark >= end) {
      Closing closing = new Closing(key, state, before != null);
      return new Parts(closing::next);
    }
    if (!isKnown) {
      alarm(end);
    }
    stored.update(state.encode());
    return Collections.emptyIterator();
  }

  /** Time has passed a window when it is at its end: the end is not in it. */
  static long endMillis(Row key) {
    return -Math.floorDiv(-key.getLong(0), MICROS_PER_MILLI);
  }

  /** Takes what was kept before there were buckets; whether anything was. */
  private boolean takeOnce(WindowState state) {
    boolean isAny = false;
    for (int side = LEFT; side <= RIGHT; side++) {
      ListState<byte[]> known = once.get(side);
      if (known.exists()) {
        isAny = true;
        int taken = side;
        CollectionConverters.asJava(known.get()).forEachRemaining(row -> state.add(taken, row));
        known.clear();
      }
    }
    return isAny;
  }

  private boolean isMatchable(Row key) {
    for (int i = 1; i < sideColumn; i++) {
      if (key.isNullAt(i)) {
        return false;
      }
    }
    return true;
  }

  /** A window while its rows leave: so many of the left side at a time meet all of the right side. */
  private final class Closing {
    private final Object end;
    private final List<TimedRows> sides;
    private final boolean areMatched;
    private final boolean existed;
    private int alone;

    Closing(Row key, WindowState state, boolean existed) {
      this.end = key.get(0);
      this.sides = state.sides;
      this.areMatched = isMatchable(key) && !sides.get(LEFT).isEmpty() && !sides.get(RIGHT).isEmpty();
      this.existed = existed;
    }

    Iterator<Row> next() {
      if (areMatched && !sides.get(LEFT).isEmpty()) {
        return pairs(sides.get(LEFT).takePayloads());
      }
      if (!areMatched && alone <= RIGHT) {
        return alone(alone++);
      }
      sides.forEach(TimedRows::clear);
      if (existed) {
        stored.clear();
      }
      return null;
    }

    private Iterator<Row> pairs(List<byte[]> lefts) {
      return all(RIGHT).flatMap(right -> lefts.stream().map(left -> RowFactory.create(end, left, right))).iterator();
    }

    private Iterator<Row> alone(int side) {
      if (!lonely[side]) {
        return Collections.emptyIterator();
      }
      return all(side)
          .map(row -> side == LEFT ? RowFactory.create(end, row, null) : RowFactory.create(end, null, row))
          .iterator();
    }

    private Stream<byte[]> all(int side) {
      Iterable<TimedRow> rows = () -> sides.get(side).between(Long.MIN_VALUE, Long.MAX_VALUE);
      return StreamSupport.stream(rows.spliterator(), false).map(TimedRow::payload);
    }
  }
}
