package dsdagster.delta.rank;

import dsdagster.KeyPlace;
import dsdagster.OperatorFault;
import dsdagster.delta.Expiry;
import dsdagster.state.Buckets;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One partition at a time. State: the first rows with their copies as one value. If rows may be retracted, also the
 * rest, row by row, from which the first rows are filled up when they become too few. A long rest is also kept in its
 * order, from the first time that it is needed; the number of its rows is stored as a negative number then.
 *
 * <p>Rules: every kept first row sorts before every row of the rest. Without retractions no rest is kept, since a row
 * beyond the limit never returns. With a time to live a partition is one value, so that it is forgotten as a whole.
 */
final class TopNProcessor extends StatefulProcessor<Row, Row, Row> implements KeyPlace.Known {
  private static final long serialVersionUID = 1L;
  private static final int SPARE = 16;
  /** Estimated bytes of a row: a rest is long if a bucket of rows of this size would be full. */
  private static final int BYTES_OF_ROW = 32;

  private final Ranking ranking;
  private final int keys;
  private final StructType order;
  private final boolean appendOnly;
  private final boolean whole;
  private final boolean ranked;
  private final Expiry expiry;
  private final KeyPlace place;
  private transient ValueState<Row> first;
  private transient MapState<byte[], Row> rest;
  /** Null if the values of ORDER BY have no order in the state store. */
  private transient SortedRows sorted;
  private transient boolean isSorted;
  private transient int longRest;

  TopNProcessor(
      Ranking ranking,
      int keys,
      StructType order,
      boolean appendOnly,
      boolean whole,
      boolean ranked,
      Expiry expiry,
      KeyPlace place) {
    this.ranking = ranking;
    this.keys = keys;
    this.order = order;
    this.appendOnly = appendOnly;
    this.whole = whole;
    this.ranked = ranked;
    this.expiry = expiry;
    this.place = place;
  }

  @Override
  public KeyPlace place() {
    return place;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    if (whole) {
      return;
    }
    StructType row =
        new StructType()
            .add("order", order)
            .add("row", DataTypes.BinaryType)
            .add("copies", DataTypes.LongType);
    StructType state = new StructType().add("rows", new ArrayType(row, false)).add("rest", DataTypes.LongType);
    first = getHandle().getValueState("first", Encoders.row(state), expiry.config());
    if (hasRest()) {
      StructType other = new StructType().add("order", order).add("copies", DataTypes.LongType);
      rest = getHandle().getMapState("rest", Encoders.BINARY(), Encoders.row(other), expiry.config());
      boolean isSortable = SortKey.isOrdered(order.fields()[0].dataType());
      sorted = isSortable ? new SortedRows(getHandle(), ranking, order) : null;
      longRest = Buckets.usualLimit() / BYTES_OF_ROW;
    }
  }

  private boolean hasRest() {
    return !appendOnly && !whole && !expiry.isSet();
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
    Row stored = whole ? null : first.get();
    TreeMap<Candidate, Long> kept = read(stored);
    long resting = stored == null ? 0 : Math.abs(stored.getLong(1));
    isSorted = stored != null && stored.getLong(1) < 0;
    List<Ranking.Shown> before = ranking.shown(kept);
    if (appendOnly) {
      come(rows, kept);
    } else {
      resting = change(rows, kept, resting);
    }
    if (!whole) {
      if (hasRest()) {
        resting = balance(kept, resting);
      }
      store(stored, kept, resting);
    }
    return CollectionConverters.asScala(output(before, ranking.shown(kept)));
  }

  private TreeMap<Candidate, Long> read(Row stored) {
    TreeMap<Candidate, Long> found = new TreeMap<>(ranking);
    if (stored != null) {
      List<Row> rows = stored.getList(0);
      for (Row row : rows) {
        found.put(new Candidate(row.getStruct(0), row.getAs(1)), row.getLong(2));
      }
    }
    return found;
  }

  private void store(Row stored, TreeMap<Candidate, Long> kept, long resting) {
    if (kept.isEmpty()) {
      if (stored != null) {
        first.clear();
      }
      return;
    }
    List<Row> rows = new ArrayList<>(kept.size());
    kept.forEach((row, copies) -> rows.add(RowFactory.create(row.order(), row.row(), copies)));
    first.update(RowFactory.create(CollectionConverters.asScala(rows.iterator()).toSeq(), isSorted ? -resting : resting));
  }

  private Candidate candidate(Row row) {
    Object[] values = new Object[ranking.terms()];
    for (int i = 0; i < values.length; i++) {
      values[i] = row.get(keys + i);
    }
    return new Candidate(RowFactory.create(values), row.getAs(keys + values.length));
  }

  private long weight(Row row) {
    return row.getLong(keys + ranking.terms() + 1);
  }

  /** Adds appended rows; rows beyond the limit are deleted from time to time. */
  private void come(Iterator<Row> rows, TreeMap<Candidate, Long> kept) {
    int most = (int) Math.min(2 * Math.min(ranking.limit(), 1 << 28) + SPARE, 1 << 29);
    while (rows.hasNext()) {
      Row row = rows.next();
      if (weight(row) < 0) {
        throw new OperatorFault("WEIGHT_NEGATIVE", "a partition of an append-only input got a retraction");
      }
      kept.merge(candidate(row), weight(row), Long::sum);
      if (kept.size() > most) {
        trim(kept);
        most = Math.max(most, 2 * kept.size());
      }
    }
    trim(kept);
  }

  private void trim(TreeMap<Candidate, Long> kept) {
    Map<Candidate, Long> copies = new LinkedHashMap<>();
    ranking.shown(kept).forEach(shown -> copies.merge(shown.candidate(), shown.copies(), Long::sum));
    kept.clear();
    kept.putAll(copies);
  }

  /** Applies additions and retractions; returns the number of different rows in the rest. */
  private long change(Iterator<Row> rows, TreeMap<Candidate, Long> kept, long resting) {
    TreeMap<Candidate, Long> changes = new TreeMap<>(ranking);
    while (rows.hasNext()) {
      Row row = rows.next();
      changes.merge(candidate(row), weight(row), Long::sum);
    }
    Candidate last = resting == 0 ? null : kept.lastKey();
    long found = resting;
    for (Map.Entry<Candidate, Long> change : changes.entrySet()) {
      Candidate candidate = change.getKey();
      if (change.getValue() == 0) {
        continue;
      }
      if (last == null || ranking.compare(candidate, last) <= 0) {
        long now = now(kept.getOrDefault(candidate, 0L), change.getValue());
        if (now == 0) {
          kept.remove(candidate);
        } else {
          kept.put(candidate, now);
        }
      } else {
        found += changeResting(candidate, change.getValue());
      }
    }
    return found;
  }

  private long now(long before, long change) {
    long now = before + change;
    if (now < 0 && !expiry.isSet()) {
      throw new OperatorFault("WEIGHT_NEGATIVE", "a partition got the retraction of a row it never had");
    }
    return Math.max(now, 0);
  }

  private int changeResting(Candidate candidate, long change) {
    Row known = rest.getValue(candidate.row());
    long now = now(known == null ? 0 : known.getLong(1), change);
    if (now == 0) {
      takeAway(candidate);
      return -1;
    }
    putAway(candidate, now, known == null);
    return known == null ? 1 : 0;
  }

  private void putAway(Candidate candidate, long copies, boolean isNew) {
    rest.updateValue(candidate.row(), RowFactory.create(candidate.order(), copies));
    if (isSorted && isNew) {
      sorted.put(candidate);
    }
  }

  private void takeAway(Candidate candidate) {
    expiry.remove(rest, candidate.row());
    if (isSorted) {
      sorted.remove(candidate);
    }
  }

  /** Moves rows from the rest if there may be too few first rows, and to the rest if there are too many. */
  private long balance(TreeMap<Candidate, Long> kept, long resting) {
    long found = resting;
    long spare = Math.min(ranking.limit(), 1 << 20) + SPARE;
    while (found > 0 && !ranking.isFull(kept)) {
      sort(found);
      found -= fill(kept, spare);
    }
    if (kept.size() > 2 * spare) {
      long needed = ranking.shown(kept).stream().map(Ranking.Shown::candidate).distinct().count() + 1;
      while (kept.size() > Math.max(spare, needed)) {
        Map.Entry<Candidate, Long> last = kept.pollLastEntry();
        putAway(last.getKey(), last.getValue(), true);
        found++;
      }
    }
    return found;
  }

  /** Stores a long rest in its order, once. */
  private void sort(long resting) {
    if (isSorted || sorted == null || resting <= longRest) {
      return;
    }
    isSorted = true;
    Iterator<Tuple2<byte[], Row>> rows = rest.iterator();
    while (rows.hasNext()) {
      Tuple2<byte[], Row> row = rows.next();
      sorted.put(new Candidate(row._2().getStruct(0), row._1()));
    }
  }

  /** Moves the first rows of the rest, at most {@code count}; returns how many were moved. */
  private long fill(TreeMap<Candidate, Long> kept, long count) {
    TreeMap<Candidate, Long> best = new TreeMap<>(ranking);
    if (isSorted) {
      sorted.first(count).forEach(row -> choose(best, row, rest.getValue(row), count));
    } else {
      CollectionConverters.asJava(rest.iterator()).forEachRemaining(row -> choose(best, row._1(), row._2(), count));
    }
    best.forEach((candidate, copies) -> {
      kept.put(candidate, copies);
      takeAway(candidate);
    });
    return best.size();
  }

  private void choose(TreeMap<Candidate, Long> best, byte[] row, Row other, long count) {
    Candidate candidate = new Candidate(other.getStruct(0), row);
    if (best.size() < count || ranking.compare(candidate, best.lastKey()) < 0) {
      best.put(candidate, other.getLong(1));
      if (best.size() > count) {
        best.pollLastEntry();
      }
    }
  }

  /** The difference of two lists of first rows: retractions, then additions. */
  private java.util.Iterator<Row> output(List<Ranking.Shown> before, List<Ranking.Shown> after) {
    Map<Place, Long> net = new LinkedHashMap<>();
    before.forEach(shown -> net.merge(place(shown), -shown.copies(), Long::sum));
    after.forEach(shown -> net.merge(place(shown), shown.copies(), Long::sum));
    List<Row> rows = new ArrayList<>(net.size());
    net.forEach((place, weight) -> add(rows, place, Math.min(weight, 0)));
    net.forEach((place, weight) -> add(rows, place, Math.max(weight, 0)));
    return rows.iterator();
  }

  private static void add(List<Row> rows, Place place, long weight) {
    if (weight != 0) {
      rows.add(RowFactory.create(place.row().array(), place.rank(), weight));
    }
  }

  private Place place(Ranking.Shown shown) {
    return new Place(ByteBuffer.wrap(shown.candidate().row()), ranked ? shown.rank() : 0);
  }

  /** A row with its rank; the rank is 0 if it is not emitted. */
  private record Place(ByteBuffer row, long rank) {}
}
