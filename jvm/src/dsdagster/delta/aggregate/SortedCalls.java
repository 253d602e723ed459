package dsdagster.delta.aggregate;

import dsdagster.delta.Expiry;
import dsdagster.delta.rank.SortKey;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/** The ordered values of a large group, for each call that is an extreme of values that may be retracted. */
final class SortedCalls {
  private final List<Call> calls;
  /** By call; null if the call is not such an extreme, or its values have no order in the state store. */
  private final List<SortedValues> values = new ArrayList<>();

  SortedCalls(
      StatefulProcessorHandle handle, List<Call> calls, StructType arguments, boolean appendOnly, Expiry expiry) {
    this.calls = calls;
    for (int i = 0; i < calls.size(); i++) {
      Call call = calls.get(i);
      boolean isLookedUp = call.function().isExtreme() && call.needsValues(appendOnly);
      DataType type = isLookedUp ? arguments.fields()[call.argument()].dataType() : null;
      boolean isSorted = isLookedUp && SortKey.isOrdered(type);
      values.add(isSorted ? new SortedValues(handle, "sorted" + i, call, type, expiry) : null);
    }
  }

  boolean has(int call) {
    return values.get(call) != null;
  }

  /** Adds or removes a value of an argument. */
  void change(int argument, Row value, boolean isThere) {
    for (int i = 0; i < calls.size(); i++) {
      if (!has(i) || calls.get(i).argument() != argument) {
        continue;
      }
      if (isThere) {
        values.get(i).put(value);
      } else {
        values.get(i).remove(value);
      }
    }
  }

  /** @param kept values by argument */
  void takeAll(List<MapState<Row, Long>> kept) {
    for (int i = 0; i < calls.size(); i++) {
      Iterator<Row> all = has(i) ? kept.get(calls.get(i).argument()).keys() : null;
      while (all != null && all.hasNext()) {
        values.get(i).put(all.next());
      }
    }
  }

  /** See {@link SortedValues#best}. */
  Object best(int call, Predicate<Row> isKnown, BiPredicate<Object, Object> isBetter) {
    return values.get(call).best(isKnown, isBetter);
  }

  void clear() {
    values.stream().filter(Objects::nonNull).forEach(SortedValues::clear);
  }
}
