package dsdagster.delta.aggregate;

import dsdagster.Expressions;
import dsdagster.delta.Expiry;
import dsdagster.delta.rank.Ranking;
import dsdagster.delta.rank.SortKey;
import java.util.List;
import java.util.function.BiPredicate;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;

/** The values of an argument of a group, ordered so that the extreme is read first. */
final class SortedValues {
  private final MapState<Row, Row> stored;
  private final SortKey keys;
  /** Null if the key contains the whole value. */
  private final Function<Row, byte[]> identity;
  private final Expiry expiry;

  /** @param name name of the map in the state store */
  SortedValues(StatefulProcessorHandle handle, String name, Call call, DataType type, Expiry expiry) {
    StructType value = new StructType().add("value", type);
    stored = handle.getMapState(name, Encoders.row(SortKey.TYPE), Encoders.row(value), expiry.config());
    this.expiry = expiry;
    boolean descending = call.function() == Call.Function.MAX;
    keys = new SortKey(List.of(type), List.of(new Ranking.Term(descending, false)));
    identity = SortKey.isExact(type) ? null : Expressions.writer(value);
  }

  private Row key(Row value) {
    return keys.of(value, identity == null ? null : identity.apply(value));
  }

  /** @param value row with the value */
  void put(Row value) {
    stored.updateValue(key(value), value);
  }

  void remove(Row value) {
    expiry.remove(stored, key(value));
  }

  void clear() {
    stored.clear();
  }

  /**
   * The first value; null if there is none.
   *
   * @param isKnown whether the value of a row still exists; others are skipped
   * @param isBetter compares values whose keys have the same beginning
   */
  Object best(Predicate<Row> isKnown, BiPredicate<Object, Object> isBetter) {
    Row key = null;
    Object found = null;
    Iterator<Tuple2<Row, Row>> rows = stored.iterator();
    while (rows.hasNext()) {
      Tuple2<Row, Row> row = rows.next();
      if (key != null && !SortKey.beginAlike(key, row._1())) {
        return found;
      }
      if (isKnown.test(row._2())) {
        key = row._1();
        found = found == null || isBetter.test(row._2().get(0), found) ? row._2().get(0) : found;
      }
    }
    return found;
  }
}
