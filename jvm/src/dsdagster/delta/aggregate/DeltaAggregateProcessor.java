package dsdagster.delta.aggregate;

import dsdagster.Keyed;
import dsdagster.OperatorFault;
import dsdagster.delta.Expiry;
import dsdagster.delta.Values;
import dsdagster.delta.Weights;
import dsdagster.state.Buckets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One group at a time. State: one value with the totals and the last result, and the values that are kept one by one,
 * see {@link GroupValues}; in a large group the values of extremes are also kept in their order.
 *
 * <p>Rules: weights of a value are summed within a batch before the map is read; only changes of the visible result
 * are emitted; if an extreme is retracted, the next one is looked up among the values: in a large group it is the
 * first of the ordered values, which are written when the first extreme is retracted. With a time to live, a group is
 * forgotten after its last change and each value after its own; the retraction of an unknown row is then ignored, and
 * the group has only the rows that arrived since.
 */
final class DeltaAggregateProcessor extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;

  /** Estimated bytes of a value: a group is large if a bucket of rows of this size would be full. */
  private static final int BYTES_OF_VALUE = 32;

  private final ArrayList<Call> calls;
  private final int keys;
  private final StructType arguments;
  private final StructType results;
  private final boolean appendOnly;
  private final boolean weighted;
  private final Expiry expiry;
  private final boolean[] valued;
  private transient ValueState<Row> stored;
  private transient GroupValues values;
  private transient SortedCalls sorted;
  private transient int large;

  DeltaAggregateProcessor(
      List<Call> calls,
      int keys,
      StructType arguments,
      StructType results,
      boolean appendOnly,
      boolean weighted,
      Expiry expiry) {
    this.calls = new ArrayList<>(calls);
    this.keys = keys;
    this.arguments = arguments;
    this.results = results;
    this.appendOnly = appendOnly;
    this.weighted = weighted;
    this.expiry = expiry;
    this.valued = new boolean[arguments.size()];
    for (Call call : calls) {
      if (call.argument() >= 0 && call.needsValues(appendOnly)) {
        valued[call.argument()] = true;
      }
    }
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    StructType state = new StructType().add("totals", DataTypes.BinaryType).add("result", results);
    stored = getHandle().getValueState("group", Encoders.row(state), expiry.config());
    values = new GroupValues(getHandle(), arguments, valued, expiry);
    sorted = new SortedCalls(getHandle(), calls, arguments, appendOnly, expiry);
    large = Buckets.usualLimit() / BYTES_OF_VALUE;
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
    Row before = stored.get();
    Group group = before == null ? Group.empty(calls) : Group.decode(before.getAs(0), calls);
    Row old = before == null ? null : before.getStruct(1);
    Object[] extremes = new Object[calls.size()];
    for (int i = 0; i < extremes.length; i++) {
      extremes[i] = old == null || !calls.get(i).function().isExtreme() ? null : old.get(i);
    }
    boolean isForgotten = before == null && expiry.isSet();
    List<Map<Object, long[]>> changes = take(isForgotten ? appeared(rows) : rows, group, extremes);
    if (group.rows < 0 && !expiry.isSet()) {
      throw new OperatorFault("WEIGHT_NEGATIVE", "a group got the retraction of a row it never had");
    }
    values.open(group, before == null);
    for (int i = 0; i < valued.length; i++) {
      if (valued[i]) {
        apply(i, changes.get(i), group, extremes, before == null);
      }
    }
    Row now = group.rows <= 0 ? null : result(group, extremes);
    if (now != null) {
      values.close(group);
      stored.update(RowFactory.create(group.encode(calls), now));
    } else {
      forget(before != null);
    }
    return Keyed.iterator(output(key, old, now));
  }

  private void forget(boolean isStored) {
    if (isStored) {
      stored.clear();
    }
    if (expiry.isSet()) {
      values.clear();
      sorted.clear();
    }
  }

  /** The additions among the rows of a group without state; retractions of unknown rows are left out. */
  private Iterator<Row> appeared(Iterator<Row> rows) {
    Map<List<Object>, Row> first = new LinkedHashMap<>();
    Map<List<Object>, long[]> weights = new HashMap<>();
    int weightColumn = keys + arguments.size();
    while (rows.hasNext()) {
      Row row = rows.next();
      List<Object> key = new ArrayList<>(arguments.size());
      for (int i = 0; i < arguments.size(); i++) {
        key.add(Values.key(row.get(keys + i)));
      }
      first.putIfAbsent(key, row);
      weights.computeIfAbsent(key, unused -> new long[1])[0] += row.getLong(weightColumn);
    }
    List<Row> found = new ArrayList<>();
    first.forEach((key, row) -> {
      long weight = weights.get(key)[0];
      if (weight > 0) {
        Object[] made = new Object[weightColumn + 1];
        for (int i = 0; i < weightColumn; i++) {
          made[i] = row.get(i);
        }
        made[weightColumn] = weight;
        found.add(RowFactory.create(made));
      }
    });
    return Keyed.iterator(found);
  }

  /** Adds a batch to the totals; returns the changes of the values that are kept one by one. */
  private List<Map<Object, long[]>> take(Iterator<Row> rows, Group group, Object[] extremes) {
    List<Map<Object, long[]>> changes = new ArrayList<>();
    for (boolean kept : valued) {
      changes.add(kept ? new HashMap<>() : null);
    }
    int weightColumn = keys + arguments.size();
    while (rows.hasNext()) {
      Row row = rows.next();
      long weight = row.getLong(weightColumn);
      group.rows += weight;
      for (int i = 0; i < valued.length; i++) {
        Object value = valued[i] ? row.get(keys + i) : null;
        if (value != null) {
          changes.get(i).computeIfAbsent(Values.key(value), unused -> new long[1])[0] += weight;
        }
      }
      for (int i = 0; i < extremes.length; i++) {
        addDirectly(i, row, weight, group, extremes);
      }
    }
    return changes;
  }

  private void addDirectly(int index, Row row, long weight, Group group, Object[] extremes) {
    Call call = calls.get(index);
    Object value = call.argument() < 0 || call.needsValues(appendOnly) ? null : row.get(keys + call.argument());
    if (value == null) {
      return;
    }
    if (!call.function().isExtreme()) {
      group.totals[index].add(call.function(), value, weight);
    } else if (weight < 0) {
      throw new OperatorFault("WEIGHT_NEGATIVE", "an aggregate over an append-only input got a retraction");
    } else if (isBetter(call, value, extremes[index])) {
      extremes[index] = value;
    }
  }

  private static boolean isBetter(Call call, Object value, Object current) {
    if (current == null) {
      return true;
    }
    int order = Values.compare(value, current);
    return call.function() == Call.Function.MIN ? order < 0 : order > 0;
  }

  /** Applies changes to the values of one argument and to the calls that use them. */
  private void apply(int argument, Map<Object, long[]> changes, Group group, Object[] extremes, boolean isNew) {
    Weights<Object> kept = values.of(argument);
    boolean[] lost = new boolean[calls.size()];
    for (Map.Entry<Object, long[]> change : changes.entrySet()) {
      long weight = change.getValue()[0];
      if (weight == 0) {
        continue;
      }
      Row value = Values.row(change.getKey());
      long before = isNew ? 0 : kept.get(change.getKey());
      long now = before + weight;
      if (now < 0) {
        if (!expiry.isSet()) {
          throw new OperatorFault("WEIGHT_NEGATIVE", "an aggregate got the retraction of a value it never had");
        }
        now = 0;
      }
      if (before == 0 && now == 0) {
        lose(argument, value.get(0), extremes, lost);
        continue;
      }
      kept.set(change.getKey(), now);
      if (group.isSorted && (before == 0 || now == 0 || expiry.isSet())) {
        sorted.change(argument, value, now > 0);
      }
      if (before == 0 || now == 0) {
        turned(argument, value.get(0), now > 0, group, extremes, lost);
      }
    }
    for (int i = 0; i < lost.length; i++) {
      if (lost[i] && group.rows > 0) {
        extremes[i] = lookUp(i, group);
      }
    }
  }

  /** The extreme of the kept values. */
  private Object lookUp(int index, Group group) {
    Call call = calls.get(index);
    if (!sorted.has(index) || !values.areStored() || !group.isSorted && group.rows <= large) {
      return best(call, values.of(call.argument()));
    }
    if (!group.isSorted) {
      group.isSorted = true;
      sorted.takeAll(values.maps());
    }
    return sorted.best(
        index,
        value -> !expiry.isSet() || values.has(call.argument(), value),
        (value, other) -> isBetter(call, value, other));
  }

  /** Retraction of a forgotten value: if it was an extreme, the extreme is looked up again. */
  private void lose(int argument, Object value, Object[] extremes, boolean[] lost) {
    for (int i = 0; i < lost.length; i++) {
      Call call = calls.get(i);
      boolean watches = call.argument() == argument && call.function().isExtreme();
      lost[i] |= watches && extremes[i] != null && Values.compare(value, extremes[i]) == 0;
    }
  }

  /** A value was added for the first time, or its last copy was retracted. */
  private void turned(int argument, Object value, boolean came, Group group, Object[] extremes, boolean[] lost) {
    for (int i = 0; i < lost.length; i++) {
      Call call = calls.get(i);
      if (call.argument() != argument || !call.needsValues(appendOnly) || call.function() == Call.Function.ARRAY_AGG) {
        continue;
      }
      if (!call.function().isExtreme()) {
        group.totals[i].add(call.function(), value, came ? 1 : -1);
      } else if (came && isBetter(call, value, extremes[i])) {
        extremes[i] = value;
      } else if (!came && extremes[i] != null && Values.compare(value, extremes[i]) == 0) {
        lost[i] = true;
      }
    }
  }

  private static Object best(Call call, Weights<Object> kept) {
    Object found = null;
    java.util.Iterator<Map.Entry<Object, Long>> all = kept.iterator();
    while (all.hasNext()) {
      Object value = Values.value(all.next().getKey());
      if (isBetter(call, value, found)) {
        found = value;
      }
    }
    return found;
  }

  private Row result(Group group, Object[] extremes) {
    Object[] found = new Object[calls.size()];
    for (int i = 0; i < found.length; i++) {
      Call call = calls.get(i);
      if (call.function().isExtreme()) {
        found[i] = extremes[i];
      } else if (call.function() == Call.Function.ARRAY_AGG) {
        found[i] = all(call, values.of(call.argument()));
      } else {
        found[i] = call.argument() < 0 ? group.rows : group.totals[i].result(call);
      }
    }
    return RowFactory.create(found);
  }

  /** All values in their natural order, with their copies; null if there are none. */
  private static Object all(Call call, Weights<Object> kept) {
    List<Object> found = new ArrayList<>();
    java.util.Iterator<Map.Entry<Object, Long>> all = kept.iterator();
    while (all.hasNext()) {
      Map.Entry<Object, Long> value = all.next();
      for (long i = 0; i < (call.distinct() ? 1 : value.getValue()); i++) {
        found.add(Values.value(value.getKey()));
      }
    }
    found.sort(Values::compare);
    return found.isEmpty() ? null : CollectionConverters.asScala(found.iterator()).toSeq();
  }

  private List<Row> output(Row key, Row old, Row now) {
    List<Row> output = new ArrayList<>(2);
    if (old == null ? now == null : old.equals(now)) {
      return output;
    }
    if (!weighted) {
      output.add(made(key, now == null ? old : now, now == null));
      return output;
    }
    if (old != null) {
      output.add(made(key, old, -1L));
    }
    if (now != null) {
      output.add(made(key, now, 1L));
    }
    return output;
  }

  private Row made(Row key, Row result, Object last) {
    Object[] found = new Object[keys + result.length() + 1];
    for (int i = 0; i < keys; i++) {
      found[i] = key.get(i);
    }
    for (int i = 0; i < result.length(); i++) {
      found[keys + i] = result.get(i);
    }
    found[found.length - 1] = last;
    return RowFactory.create(found);
  }
}
