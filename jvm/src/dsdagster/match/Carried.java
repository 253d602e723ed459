package dsdagster.match;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;

/** The aggregates that conditions use; their states are carried from row to row. */
final class Carried implements Way.Carrier {
  /** Reads a field of a row of the path. */
  interface Fields {
    Object get(int place, int field);
  }

  private final List<Value> values;
  private final Aggregate[] aggregates;
  private final Fields fields;
  /** By value: index of its state; negative for values that are not carried. */
  private final int[] places;
  private final StructType types;
  private final UnsafeProjection packing;

  private Carried(List<Value> values, Aggregate[] aggregates, Fields fields, int[] places, StructType types) {
    this.values = values;
    this.aggregates = aggregates;
    this.fields = fields;
    this.places = places;
    this.types = types;
    packing = UnsafeProjection$.MODULE$.create(types);
  }

  /** The carried aggregates of the values; null if there are none. */
  static Carried of(List<Value> values, Aggregate[] aggregates, Fields fields) {
    int[] places = new int[aggregates.length];
    StructType types = new StructType();
    for (int i = 0; i < places.length; i++) {
      boolean isCarried = aggregates[i] != null && values.get(i).isTested();
      places[i] = isCarried ? types.size() : -1;
      types = isCarried ? types.add("a" + i, aggregates[i].stateType()) : types;
    }
    return types.isEmpty() ? null : new Carried(values, aggregates, fields, places, types);
  }

  boolean has(int index) {
    return places[index] >= 0;
  }

  /** The state of a value's aggregate. */
  Object state(Object[] carried, int index) {
    return carried == null ? null : carried[places[index]];
  }

  @Override
  public Object[] after(Object[] before, int place, int variable) {
    Object[] after = before == null ? new Object[types.size()] : before.clone();
    for (int i = 0; i < places.length; i++) {
      Value value = values.get(i);
      if (places[i] >= 0 && value.takes(variable)) {
        Object next = value.field() < 0 ? Boolean.TRUE : fields.get(place, value.field());
        after[places[i]] = aggregates[i].add(after[places[i]], next);
      }
    }
    return after;
  }

  @Override
  public byte[] pack(Object[] carried) {
    GenericInternalRow states = new GenericInternalRow(types.size());
    for (int i = 0; i < places.length; i++) {
      if (places[i] >= 0) {
        states.update(places[i], aggregates[i].packed(state(carried, i)));
      }
    }
    return packing.apply(states).copy().getBytes(); // the projection reuses its row
  }

  @Override
  public Object[] unpack(byte[] packed) {
    UnsafeRow states = new UnsafeRow(types.size());
    states.pointTo(packed, packed.length);
    Object[] carried = new Object[types.size()];
    for (int i = 0; i < places.length; i++) {
      int place = places[i];
      if (place >= 0 && !states.isNullAt(place)) {
        carried[place] = aggregates[i].unpacked(states.get(place, types.fields()[place].dataType()));
      }
    }
    return carried;
  }
}
