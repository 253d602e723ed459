package dsdagster.delta;

import dsdagster.OperatorFault;
import dsdagster.state.Parts;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
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
import scala.jdk.javaapi.CollectionConverters;

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
  public scala.collection.Iterator<Row> handleInputRows(Row key, scala.collection.Iterator<Row> rows, TimerValues times) {
    Packed[] sides = {new Packed(), new Packed()};
    boolean matchable = true;
    while (rows.hasNext()) {
      Row row = rows.next();
      matchable = row.getBoolean(sideColumn + 1);
      sides[row.getInt(sideColumn)].add(row.getAs(sideColumn + 2), row.getLong(sideColumn + 3));
    }
    Map<byte[], Long> newLeft = matchable ? known(left, sides[0].net()) : sides[0].net();
    Map<byte[], Long> newRight = matchable ? known(right, sides[1].net()) : sides[1].net();
    Visit visit = new Visit(newLeft, newRight);
    return CollectionConverters.asScala(new Parts(matchable ? visit::next : visit::nextUnmatchable));
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

  /** A key while its rows leave; between the parts state is changed. */
  private final class Visit {
    private final Map<byte[], Long> newLeft;
    private final Map<byte[], Long> newRight;
    private int parts;
    private long leftBefore;
    private long rightBefore;
    private long leftNow;
    private long rightNow;

    Visit(Map<byte[], Long> newLeft, Map<byte[], Long> newRight) {
      this.newLeft = newLeft;
      this.newRight = newRight;
    }

    Iterator<Row> next() {
      return switch (parts++) {
        case 0 -> alone(newLeft, kind.ownLeft, true);
        case 1 -> alone(newRight, kind.ownRight, false);
        case 2 -> {
          count();
          yield kind.pairs && !newLeft.isEmpty() ? pairs(right, newLeft, false) : none();
        }
        case 3 -> {
          leftNow = leftBefore + keep(left, newLeft);
          yield kind.pairs && !newRight.isEmpty() ? pairs(left, newRight, true) : none();
        }
        case 4 -> {
          rightNow = rightBefore + (keepsRight() ? keep(right, newRight) : sum(newRight));
          storeCounts();
          yield kind.lonelyLeft ? shown(left, newLeft, rightBefore == 0, rightNow == 0, true) : none();
        }
        case 5 -> kind == JoinKind.SEMI ? shown(left, newLeft, rightBefore != 0, rightNow != 0, true) : none();
        case 6 -> kind.lonelyRight ? shown(right, newRight, leftBefore == 0, leftNow == 0, false) : none();
        default -> null;
      };
    }

    /** A key that matches nothing: its rows are only shown, by themselves. */
    Iterator<Row> nextUnmatchable() {
      return switch (parts++) {
        case 0 -> alone(newLeft, kind.ownLeft, true);
        case 1 -> alone(newRight, kind.ownRight, false);
        case 2 -> alone(newLeft, kind.lonelyLeft, true);
        case 3 -> alone(newRight, kind.lonelyRight, false);
        default -> null;
      };
    }

    private void count() {
      Row before = kind.counts() ? counted() : null;
      if (before != null) {
        leftBefore = before.getLong(0);
        rightBefore = before.getLong(1);
      }
    }

    private void storeCounts() {
      if (!counts()) {
        return;
      }
      if (leftNow == 0 && rightNow == 0) {
        counts.clear();
      } else if (leftNow != leftBefore || rightNow != rightBefore) {
        counts.update(RowFactory.create(leftNow, rightNow));
      }
    }
  }

  private static Iterator<Row> none() {
    return Collections.emptyIterator();
  }

  /** Every kept row of one side with every changed row of the other. */
  private static Iterator<Row> pairs(MapState<byte[], Long> kept, Map<byte[], Long> changed, boolean keptIsLeft) {
    return new Pairs(CollectionConverters.asJava(kept.iterator()), changed, keptIsLeft);
  }

  /** Kept rows are read one by one: they may be many more than the changed ones. */
  private static final class Pairs implements Iterator<Row> {
    private final Iterator<Tuple2<byte[], Long>> kept;
    private final Map<byte[], Long> changed;
    private final boolean keptIsLeft;
    private Tuple2<byte[], Long> row;
    private Iterator<Map.Entry<byte[], Long>> others = Collections.emptyIterator();

    Pairs(Iterator<Tuple2<byte[], Long>> kept, Map<byte[], Long> changed, boolean keptIsLeft) {
      this.kept = kept;
      this.changed = changed;
      this.keptIsLeft = keptIsLeft;
    }

    @Override
    public boolean hasNext() {
      return others.hasNext() || kept.hasNext();
    }

    @Override
    public Row next() {
      if (!others.hasNext()) {
        row = kept.next();
        others = changed.entrySet().iterator();
      }
      Map.Entry<byte[], Long> other = others.next();
      byte[] first = keptIsLeft ? row._1() : other.getKey();
      byte[] second = keptIsLeft ? other.getKey() : row._1();
      return RowFactory.create(first, second, other.getValue() * row._2());
    }
  }

  /** Adds changes to a side; gives by how many rows it grew. */
  private static long keep(MapState<byte[], Long> side, Map<byte[], Long> changed) {
    for (Map.Entry<byte[], Long> entry : changed.entrySet()) {
      Long before = side.getValue(entry.getKey());
      long now = (before == null ? 0 : before) + entry.getValue();
      if (now < 0) {
        throw new OperatorFault("WEIGHT_NEGATIVE", "a join got the retraction of a row it never had");
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
    return stream(CollectionConverters.asJava(side.values())).mapToLong(Long::longValue).sum();
  }

  /**
   * Rows of a side, whose state holds the changes already, that are shown by themselves, or for semi joins with a partner:
   * those that were shown change by what the batch changed; when that turns all of them come or go.
   */
  private static Iterator<Row> shown(
      MapState<byte[], Long> side, Map<byte[], Long> changed, boolean were, boolean are, boolean isLeft) {
    Iterator<Row> changes = alone(changed, were, isLeft);
    if (were == are) {
      return changes;
    }
    Iterator<Row> all =
        stream(CollectionConverters.asJava(side.iterator()))
            .map(row -> single(row._1(), are ? row._2() : -row._2(), isLeft))
            .iterator();
    Iterator<Iterator<Row>> both = List.of(changes, all).iterator();
    return new Parts(() -> both.hasNext() ? both.next() : null);
  }

  private static Iterator<Row> alone(Map<byte[], Long> rows, boolean show, boolean isLeft) {
    return show
        ? rows.entrySet().stream().map(row -> single(row.getKey(), row.getValue(), isLeft)).iterator()
        : none();
  }

  private static <T> Stream<T> stream(Iterator<T> values) {
    return StreamSupport.stream(Spliterators.spliteratorUnknownSize(values, Spliterator.ORDERED), false);
  }

  private static Row single(byte[] row, long weight, boolean isLeft) {
    return isLeft ? RowFactory.create(row, null, weight) : RowFactory.create(null, row, weight);
  }
}
