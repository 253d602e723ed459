package dsdagster.join;

import dsdagster.alarm.AlarmedProcessor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One window and key at a time. Rows come packed: the key's columns, then {@code side}, {@code payload}.
 *
 * <p>Rules: while time has not passed the end the rows of both sides wait in state; when it has, all pairs leave and the
 * state is gone. Rows that come in that very batch, as those of a closing step below do, join those that waited without
 * going through the state.
 */
final class WindowJoinProcessor extends AlarmedProcessor {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_MILLI = 1000;

  private final int sideColumn;
  private final boolean lonelyLeft;
  private final boolean lonelyRight;
  private transient ListState<byte[]> left;
  private transient ListState<byte[]> right;

  WindowJoinProcessor(StructType keyType, boolean lonelyLeft, boolean lonelyRight) {
    super(keyType, true);
    this.sideColumn = keyType.size();
    this.lonelyLeft = lonelyLeft;
    this.lonelyRight = lonelyRight;
  }

  @Override
  protected void open() {
    left = getHandle().getListState("left", Encoders.BINARY(), TTLConfig.NONE());
    right = getHandle().getListState("right", Encoders.BINARY(), TTLConfig.NONE());
  }

  @Override
  protected Iterator<Row> look(Row key, Iterator<Row> rows, long watermark) {
    List<byte[]> newLeft = new ArrayList<>();
    List<byte[]> newRight = new ArrayList<>();
    while (rows.hasNext()) {
      Row row = rows.next();
      (row.getInt(sideColumn) == 0 ? newLeft : newRight).add(row.getAs(sideColumn + 1));
    }
    long end = endMillis(key);
    if (watermark >= end) {
      return close(key, newLeft, newRight);
    }
    if (!left.exists() && !right.exists()) {
      alarm(end);
    }
    keep(left, newLeft);
    keep(right, newRight);
    return Collections.emptyIterator();
  }

  /** Time has passed a window when it is at its end: the end is not in it. */
  private static long endMillis(Row key) {
    return -Math.floorDiv(-key.getLong(0), MICROS_PER_MILLI);
  }

  private static void keep(ListState<byte[]> side, List<byte[]> rows) {
    if (!rows.isEmpty()) {
      side.appendList(rows.toArray(new byte[0][]));
    }
  }

  private Iterator<Row> close(Row key, List<byte[]> newLeft, List<byte[]> newRight) {
    List<byte[]> lefts = taken(left, newLeft);
    List<byte[]> rights = taken(right, newRight);
    Object end = key.get(0);
    if (isMatchable(key) && !lefts.isEmpty() && !rights.isEmpty()) {
      return lefts.stream().flatMap(l -> rights.stream().map(r -> RowFactory.create(end, l, r))).iterator();
    }
    List<Row> lonely = new ArrayList<>();
    if (lonelyLeft) {
      lefts.forEach(row -> lonely.add(RowFactory.create(end, row, null)));
    }
    if (lonelyRight) {
      rights.forEach(row -> lonely.add(RowFactory.create(end, null, row)));
    }
    return lonely.iterator();
  }

  private boolean isMatchable(Row key) {
    for (int i = 1; i < sideColumn; i++) {
      if (key.isNullAt(i)) {
        return false;
      }
    }
    return true;
  }

  private static List<byte[]> taken(ListState<byte[]> side, List<byte[]> more) {
    List<byte[]> rows = new ArrayList<>();
    CollectionConverters.asJava(side.get()).forEachRemaining(rows::add);
    rows.addAll(more);
    side.clear();
    return rows;
  }
}
