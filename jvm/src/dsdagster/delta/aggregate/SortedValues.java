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

/** The values of an argument of a group in the order that an extreme asks for: the best one is the first that is read. */
final class SortedValues {
  private final MapState<Row, Row> stored;
  private final SortKey keys;
  /** Null where the key says all of a value. */
  private final Function<Row, byte[]> identity;

  /** @param name of the map in the state store */
  SortedValues(StatefulProcessorHandle handle, String name, Call call, DataType type, Expiry expiry) {
    StructType value = new StructType().add("value", type);
    stored = handle.getMapState(name, Encoders.row(SortKey.TYPE), Encoders.row(value), expiry.config());
    boolean descending = call.function() == Call.Function.MAX;
    keys = new SortKey(List.of(type), List.of(new Ranking.Term(descending, false)));
    identity = SortKey.isExact(type) ? null : Expressions.writer(value);
  }

  private Row key(Row value) {
    return keys.of(value, identity == null ? null : identity.apply(value));
  }

  /** @param value a row of it */
  void put(Row value) {
    stored.updateValue(key(value), value);
  }

  void remove(Row value) {
    stored.removeKey(key(value));
  }

  void clear() {
    stored.clear();
  }

  /**
   * The first value, null without one.
   *
   * @param isKnown says of a row of a value whether it is there; those that are not are passed over
   * @param isBetter of values whose keys begin alike
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
