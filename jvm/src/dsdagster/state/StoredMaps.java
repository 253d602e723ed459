package dsdagster.state;

import dsdagster.PrivateField;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statevariables.MapStateImpl;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.streaming.MapState;

/** Maps in the state store, over the keys of a partition; Spark's {@link MapState} shows the current key's entries only. */
public final class StoredMaps {
  private StoredMaps() {}

  /**
   * Whether a map is known to have no entry, whatever the key.
   *
   * @param map without a time to live
   * @return false also if it is not Spark's own map, or if its fields have other names, as in another version of Spark
   */
  public static boolean isEmpty(MapState<?, ?> map) {
    if (!(map instanceof MapStateImpl)) {
      return false;
    }
    try {
      StateStore store = (StateStore) PrivateField.of(MapStateImpl.class, "store").get(map);
      String name = (String) PrivateField.of(MapStateImpl.class, "stateName").get(map);
      StateStoreIterator<?> entries = store.iterator(name);
      try {
        return !entries.hasNext();
      } finally {
        entries.close();
      }
    } catch (ReflectiveOperationException differs) {
      return false;
    }
  }
}
