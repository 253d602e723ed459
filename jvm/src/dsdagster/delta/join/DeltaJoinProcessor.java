package dsdagster.delta.join;

import dsdagster.OperatorFault;
import dsdagster.delta.Expiry;
import dsdagster.delta.Packed;
import dsdagster.delta.Weights;
import dsdagster.state.Parts;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One join key at a time; its state is a {@link JoinState}.
 *
 * <p>Rule: the change of the pairs is ΔL ⋈ R before + L after ⋈ ΔR, so that every pair is counted once. With a time to
 * live each row expires separately, so both sides are stored and read instead of counted.
 */
final class DeltaJoinProcessor extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;

  private final int sideColumn;
  private final JoinKind kind;
  private final Expiry expiry;
  private transient JoinState state;

  DeltaJoinProcessor(int keys, JoinKind kind, Expiry expiry) {
    this.sideColumn = keys;
    this.kind = kind;
    this.expiry = expiry;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    state = new JoinState(getHandle(), kind, expiry);
  }

  private boolean keepsRight() {
    return kind.pairs || expiry.isSet();
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
    Map<ByteBuffer, Long> newLeft = sides[0].net();
    Map<ByteBuffer, Long> newRight = sides[1].net();
    if (newLeft.isEmpty() && newRight.isEmpty()) {
      return CollectionConverters.asScala(none());
    }
    if (!matchable) {
      return CollectionConverters.asScala(new Parts(new Visit(newLeft, newRight)::nextUnmatchable));
    }
    state.open();
    Visit visit = new Visit(known(state.left, newLeft), known(state.right, newRight));
    return CollectionConverters.asScala(new Parts(visit::next));
  }

  /** Changes without retractions of forgotten rows. */
  private Map<ByteBuffer, Long> known(Weights<ByteBuffer> side, Map<ByteBuffer, Long> changed) {
    if (!expiry.isSet()) {
      return changed;
    }
    Map<ByteBuffer, Long> found = new LinkedHashMap<>();
    changed.forEach((row, weight) -> {
      long kept = weight < 0 ? Math.max(weight, -side.get(row)) : weight;
      if (kept != 0) {
        found.put(row, kept);
      }
    });
    return found;
  }

  /** Emits the rows of a key in parts; state is changed between the parts. */
  private final class Visit {
    private final Map<ByteBuffer, Long> newLeft;
    private final Map<ByteBuffer, Long> newRight;
    private int parts;
    private boolean hadLeft;
    private boolean hadRight;

    Visit(Map<ByteBuffer, Long> newLeft, Map<ByteBuffer, Long> newRight) {
      this.newLeft = newLeft;
      this.newRight = newRight;
    }

    Iterator<Row> next() {
      return switch (parts++) {
        case 0 -> alone(newLeft, kind.ownLeft, true);
        case 1 -> alone(newRight, kind.ownRight, false);
        case 2 -> {
          hadLeft = state.leftCount != 0;
          hadRight = state.rightCount != 0;
          yield kind.pairs && !newLeft.isEmpty() ? new Pairs(state.right, newLeft, false) : none();
        }
        case 3 -> {
          state.leftCount += keep(state.left, newLeft);
          yield kind.pairs && !newRight.isEmpty() ? new Pairs(state.left, newRight, true) : none();
        }
        case 4 -> {
          state.rightCount += keepsRight() ? keep(state.right, newRight) : sum(newRight);
          yield kind.lonelyLeft ? shown(state.left, newLeft, !hadRight, state.rightCount == 0, true) : none();
        }
        case 5 -> kind == JoinKind.SEMI ? shown(state.left, newLeft, hadRight, state.rightCount != 0, true) : none();
        case 6 -> kind.lonelyRight ? shown(state.right, newRight, !hadLeft, state.leftCount == 0, false) : none();
        default -> {
          state.close();
          yield null;
        }
      };
    }

    /** For a key that matches nothing: its rows are only emitted without partners. */
    Iterator<Row> nextUnmatchable() {
      return switch (parts++) {
        case 0 -> alone(newLeft, kind.ownLeft, true);
        case 1 -> alone(newRight, kind.ownRight, false);
        case 2 -> alone(newLeft, kind.lonelyLeft, true);
        case 3 -> alone(newRight, kind.lonelyRight, false);
        default -> null;
      };
    }
  }

  private static Iterator<Row> none() {
    return Collections.emptyIterator();
  }

  /** Pairs of every stored row of one side and every changed row of the other. Stored rows are read one by one. */
  private static final class Pairs implements Iterator<Row> {
    private final Iterator<Map.Entry<ByteBuffer, Long>> kept;
    private final Map<ByteBuffer, Long> changed;
    private final boolean keptIsLeft;
    private Map.Entry<ByteBuffer, Long> row;
    private Iterator<Map.Entry<ByteBuffer, Long>> others = Collections.emptyIterator();

    Pairs(Weights<ByteBuffer> kept, Map<ByteBuffer, Long> changed, boolean keptIsLeft) {
      this.kept = kept.iterator();
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
      Map.Entry<ByteBuffer, Long> other = others.next();
      byte[] first = (keptIsLeft ? row : other).getKey().array();
      byte[] second = (keptIsLeft ? other : row).getKey().array();
      return RowFactory.create(first, second, other.getValue() * row.getValue());
    }
  }

  /** Adds changes to a side; returns the change of its number of rows. */
  private static long keep(Weights<ByteBuffer> side, Map<ByteBuffer, Long> changed) {
    changed.forEach((row, weight) -> {
      long now = side.get(row) + weight;
      if (now < 0) {
        throw new OperatorFault("WEIGHT_NEGATIVE", "a join got the retraction of a row it never had");
      }
      side.set(row, now);
    });
    return sum(changed);
  }

  private static long sum(Map<ByteBuffer, Long> changed) {
    return changed.values().stream().mapToLong(Long::longValue).sum();
  }

  /**
   * Changes of the rows of a side that are emitted alone (rows without a partner; for semi joins rows with one): the
   * batch's changes if rows {@code were} emitted before it, and all rows of the side, added or retracted, if they
   * {@code are} emitted now and were not, or the reverse. The state of the side has the changes already.
   */
  private static Iterator<Row> shown(
      Weights<ByteBuffer> side, Map<ByteBuffer, Long> changed, boolean were, boolean are, boolean isLeft) {
    Iterator<Row> changes = alone(changed, were, isLeft);
    if (were == are) {
      return changes;
    }
    Spliterator<Map.Entry<ByteBuffer, Long>> all =
        Spliterators.spliteratorUnknownSize(side.iterator(), Spliterator.ORDERED);
    Iterator<Row> turned =
        StreamSupport.stream(all, false)
            .map(row -> single(row.getKey(), are ? row.getValue() : -row.getValue(), isLeft))
            .iterator();
    Iterator<Iterator<Row>> both = List.of(changes, turned).iterator();
    return new Parts(() -> both.hasNext() ? both.next() : null);
  }

  private static Iterator<Row> alone(Map<ByteBuffer, Long> rows, boolean show, boolean isLeft) {
    return show
        ? rows.entrySet().stream().map(row -> single(row.getKey(), row.getValue(), isLeft)).iterator()
        : none();
  }

  private static Row single(ByteBuffer row, long weight, boolean isLeft) {
    return isLeft ? RowFactory.create(row.array(), null, weight) : RowFactory.create(null, row.array(), weight);
  }
}
