package dsdagster.delta;

import dsdagster.Keyed;
import dsdagster.OperatorFault;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * One join key at a time. State: the rows of each side with how often they are there, and for joins that show lonely
 * rows how many rows each side has.
 *
 * <p>Rule: the change of the pairs is ΔL ⋈ R before + L after ⋈ ΔR, so that every pair is counted once. Where rows are
 * forgotten after a while, each by itself, both sides are kept and looked through instead of counted.
 */
final class DeltaJoinProcessor extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;
  private static final StructType COUNTS =
      new StructType().add("left", DataTypes.LongType).add("right", DataTypes.LongType);

  private final int sideColumn;
  private final JoinKind kind;
  private final Expiry expiry;
  private transient MapState<byte[], Long> left;
  private transient MapState<byte[], Long> right;
  private transient ValueState<Row> counts;

  DeltaJoinProcessor(int keys, JoinKind kind, Expiry expiry) {
    this.sideColumn = keys;
    this.kind = kind;
    this.expiry = expiry;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    left = getHandle().getMapState("left", Encoders.BINARY(), Encoders.LONG(), expiry.config());
    if (keepsRight()) {
      right = getHandle().getMapState("right", Encoders.BINARY(), Encoders.LONG(), expiry.config());
    }
    if (counts()) {
      counts = getHandle().getValueState("counts", Encoders.row(COUNTS), expiry.config());
    }
  }

  private boolean keepsRight() {
    return kind.pairs || expiry.isSet();
  }

  private boolean counts() {
    return kind.counts() && !expiry.isSet();
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
    Packed[] sides = {new Packed(), new Packed()};
    boolean matchable = true;
    while (rows.hasNext()) {
      Row row = rows.next();
      matchable = row.getBoolean(sideColumn + 1);
      sides[row.getInt(sideColumn)].add(row.getAs(sideColumn + 2), row.getLong(sideColumn + 3));
    }
    Map<byte[], Long> newLeft = matchable ? known(left, sides[0].net()) : sides[0].net();
    Map<byte[], Long> newRight = matchable ? known(right, sides[1].net()) : sides[1].net();
    List<Row> output = new ArrayList<>();
    alone(newLeft, kind.ownLeft, true, output);
    alone(newRight, kind.ownRight, false, output);
    if (!matchable) {
      alone(newLeft, kind.lonelyLeft, true, output);
      alone(newRight, kind.lonelyRight, false, output);
      return Keyed.iterator(output);
    }
    join(newLeft, newRight, output);
    return Keyed.iterator(output);
  }

  /** Changes without those of rows that were forgotten. */
  private Map<byte[], Long> known(MapState<byte[], Long> side, Map<byte[], Long> changed) {
    if (!expiry.isSet()) {
      return changed;
    }
    Map<byte[], Long> found = new LinkedHashMap<>();
    changed.forEach((row, weight) -> {
      Long before = weight < 0 ? side.getValue(row) : Long.valueOf(0);
      long kept = weight < 0 ? Math.max(weight, before == null ? 0 : -before) : weight;
      if (kept != 0) {
        found.put(row, kept);
      }
    });
    return found;
  }

  private void join(Map<byte[], Long> newLeft, Map<byte[], Long> newRight, List<Row> output) {
    Row before = kind.counts() ? counted() : null;
    if (kind.pairs && !newLeft.isEmpty()) {
      pairs(right.iterator(), newLeft, false, output);
    }
    long moreLeft = keep(left, newLeft);
    if (kind.pairs && !newRight.isEmpty()) {
      pairs(left.iterator(), newRight, true, output);
    }
    long moreRight = keepsRight() ? keep(right, newRight) : sum(newRight);
    if (kind.counts()) {
      lonely(newLeft, newRight, before, moreLeft, moreRight, output);
    }
  }

  /** Every kept row of one side with every changed row of the other. */
  private static void pairs(
      Iterator<Tuple2<byte[], Long>> kept, Map<byte[], Long> changed, boolean keptIsLeft, List<Row> output) {
    while (kept.hasNext()) {
      Tuple2<byte[], Long> row = kept.next();
      changed.forEach((other, weight) -> {
        byte[] first = keptIsLeft ? row._1() : other;
        byte[] second = keptIsLeft ? other : row._1();
        output.add(RowFactory.create(first, second, weight * row._2()));
      });
    }
  }

  /** Adds changes to a side; gives by how many rows it grew. */
  private static long keep(MapState<byte[], Long> side, Map<byte[], Long> changed) {
    for (Map.Entry<byte[], Long> entry : changed.entrySet()) {
      Long before = side.getValue(entry.getKey());
      long now = (before == null ? 0 : before) + entry.getValue();
      if (now < 0) {
        throw new OperatorFault("WEIGHT_NEGATIVE", "a join was told to forget a row it never had");
      }
      if (now == 0) {
        side.removeKey(entry.getKey());
      } else {
        side.updateValue(entry.getKey(), now);
      }
    }
    return sum(changed);
  }

  private static long sum(Map<byte[], Long> changed) {
    return changed.values().stream().mapToLong(Long::longValue).sum();
  }

  /** How many rows each side has, null for none. */
  private Row counted() {
    return counts() ? counts.get() : RowFactory.create(total(left), total(right));
  }

  private static long total(MapState<byte[], Long> side) {
    long found = 0;
    Iterator<Long> rows = side.values();
    while (rows.hasNext()) {
      found += rows.next();
    }
    return found;
  }

  /** Rows that have, or had, no partner; semi and anti joins show left rows by whether they have one. */
  private void lonely(
      Map<byte[], Long> newLeft,
      Map<byte[], Long> newRight,
      Row before,
      long moreLeft,
      long moreRight,
      List<Row> output) {
    long leftBefore = before == null ? 0 : before.getLong(0);
    long rightBefore = before == null ? 0 : before.getLong(1);
    long leftNow = leftBefore + moreLeft;
    long rightNow = rightBefore + moreRight;
    if (counts()) {
      if (leftNow == 0 && rightNow == 0) {
        counts.clear();
      } else if (moreLeft != 0 || moreRight != 0) {
        counts.update(RowFactory.create(leftNow, rightNow));
      }
    }
    if (kind.lonelyLeft) {
      shown(left, newLeft, rightBefore == 0, rightNow == 0, true, output);
    }
    if (kind == JoinKind.SEMI) {
      shown(left, newLeft, rightBefore != 0, rightNow != 0, true, output);
    }
    if (kind.lonelyRight) {
      shown(right, newRight, leftBefore == 0, leftNow == 0, false, output);
    }
  }

  /**
   * Rows of a side, whose state holds the changes already, that are shown by themselves: those that were shown change by
   * what the batch changed; when that turns all of them come or go.
   */
  private static void shown(
      MapState<byte[], Long> side,
      Map<byte[], Long> changed,
      boolean were,
      boolean are,
      boolean isLeft,
      List<Row> output) {
    if (were) {
      alone(changed, true, isLeft, output);
    }
    if (were != are) {
      Iterator<Tuple2<byte[], Long>> rows = side.iterator();
      while (rows.hasNext()) {
        Tuple2<byte[], Long> row = rows.next();
        output.add(single(row._1(), are ? row._2() : -row._2(), isLeft));
      }
    }
  }

  private static void alone(Map<byte[], Long> rows, boolean show, boolean isLeft, List<Row> output) {
    if (show) {
      rows.forEach((row, weight) -> output.add(single(row, weight, isLeft)));
    }
  }

  private static Row single(byte[] row, long weight, boolean isLeft) {
    return isLeft ? RowFactory.create(row, null, weight) : RowFactory.create(null, row, weight);
  }
}
