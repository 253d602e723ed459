package dsdagster.delta.aggregate;

import dsdagster.Expressions;
import dsdagster.delta.Expiry;
import dsdagster.delta.HeldWeights;
import dsdagster.delta.StoredWeights;
import dsdagster.delta.Values;
import dsdagster.delta.Weights;
import dsdagster.state.Buckets;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.types.StructType;

/**
 * The values of a group that are kept one by one, by argument.
 *
 * <p>Rule: while there are few values, they are part of the group's one value in the state store. Once there are many,
 * each is an entry of its own, until the group is empty. With a time to live each value is always an entry of its own,
 * since each expires separately.
 */
final class GroupValues {
  private static final byte[] NONE = new byte[Integer.BYTES];

  private final boolean forgets;
  private final boolean isAny;
  private final int limit = Buckets.smallLimit();
  /** By argument; null if its values are not kept. */
  private final List<MapState<Row, Long>> maps = new ArrayList<>();
  private final List<StoredWeights<Object, Row>> stored = new ArrayList<>();
  private final List<Function<Object, byte[]>> writers = new ArrayList<>();
  private final List<Function<byte[], Object>> readers = new ArrayList<>();
  private Weights<Object>[] current;

  /** @param valued by argument: whether its values are kept */
  @SuppressWarnings("unchecked")
  GroupValues(StatefulProcessorHandle handle, StructType arguments, boolean[] valued, Expiry expiry) {
    forgets = expiry.isSet();
    boolean some = false;
    for (int i = 0; i < valued.length; i++) {
      some |= valued[i];
      if (valued[i]) {
        StructType value = new StructType().add("value", arguments.fields()[i].dataType());
        maps.add(handle.getMapState("values" + i, Encoders.row(value), Encoders.LONG(), expiry.config()));
        stored.add(new StoredWeights<>(maps.get(i), Values::row, row -> Values.key(row.get(0)), expiry));
        Function<Row, byte[]> writer = Expressions.writer(value);
        Function<byte[], Row> reader = Expressions.reader(value);
        writers.add(thing -> writer.apply(Values.row(thing)));
        readers.add(bytes -> Values.key(reader.apply(bytes).get(0)));
      } else {
        maps.add(null);
        stored.add(null);
        writers.add(null);
        readers.add(null);
      }
    }
    isAny = some;
    current = new Weights[valued.length];
  }

  /** @param isNew whether the group has no value in the state store yet */
  void open(Group group, boolean isNew) {
    boolean areHeld = isAny && !forgets && (isNew || group.values != null);
    for (int i = 0; i < current.length; i++) {
      if (maps.get(i) == null) {
        continue;
      }
      if (!areHeld) {
        current[i] = stored.get(i);
      } else if (isNew) {
        current[i] = new HeldWeights<>(writers.get(i));
      } else {
        current[i] = HeldWeights.get(ByteBuffer.wrap(group.values[i]), writers.get(i), readers.get(i));
      }
    }
  }

  /** The values of an argument with their counts. */
  Weights<Object> of(int argument) {
    return current[argument];
  }

  /** Whether each value is an entry of the state store. */
  boolean areStored() {
    for (Weights<Object> one : current) {
      if (one instanceof HeldWeights<Object>) {
        return false;
      }
    }
    return true;
  }

  boolean has(int argument, Row value) {
    return maps.get(argument).containsKey(value);
  }

  /** The values by argument, as entries of the state store. */
  List<MapState<Row, Long>> maps() {
    return maps;
  }

  void clear() {
    maps.stream().filter(Objects::nonNull).forEach(MapState::clear);
  }

  /** Stores the values in the group's value if they are few. */
  void close(Group group) {
    group.values = null;
    if (areStored()) {
      return;
    }
    long size = 0;
    for (Weights<Object> one : current) {
      size += one instanceof HeldWeights<Object> few ? few.encodedSize() : 0;
    }
    if (size <= limit) {
      group.values = new byte[current.length][];
    }
    for (int i = 0; i < current.length; i++) {
      if (current[i] instanceof HeldWeights<Object> few) {
        keep(group, i, few);
      } else if (group.values != null) {
        group.values[i] = NONE;
      }
    }
  }

  private void keep(Group group, int argument, HeldWeights<Object> few) {
    if (group.values == null) {
      few.moveTo(stored.get(argument));
      return;
    }
    ByteBuffer out = ByteBuffer.allocate((int) few.encodedSize());
    few.put(out);
    group.values[argument] = out.array();
  }
}
