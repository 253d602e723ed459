package dsdagster.delta;

import java.io.Serializable;
import java.time.Duration;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.ttl.MapStateImplWithTTL;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;

/**
 * Time to live of an operator's state that does not change.
 *
 * <p>Rules: if {@code millis} is 0, state is kept forever and the retraction of an unknown row is a fault. Otherwise
 * such a retraction is ignored, since the row's state may have been forgotten. Spark forgets by the time of a batch,
 * which is in the checkpoint, so that a replayed batch sees the same state.
 */
public record Expiry(long millis) implements Serializable {
  public boolean isSet() {
    return millis > 0;
  }

  public TTLConfig config() {
    return isSet() ? new TTLConfig(Duration.ofMillis(millis)) : TTLConfig.NONE();
  }

  /** Spark allows a time to live only in processing time. */
  public TimeMode timeMode() {
    return isSet() ? TimeMode.ProcessingTime() : TimeMode.None();
  }

  /**
   * Removes a key of a map with this time to live, and its entry in Spark's index of times of expiry.
   *
   * <p>Spark 4.2's {@code MapState.removeKey} leaves the entry. A key that is removed and added again would be forgotten
   * when the removed one would have been: the entry deletes whatever the key has by then. {@code MapState.clear} deletes
   * such entries; this method does the same for one key.
   */
  public <K, V> void remove(MapState<K, V> map, K key) {
    if (!isSet()) {
      map.removeKey(key);
      return;
    }
    MapStateImplWithTTL<K, V> expiring = (MapStateImplWithTTL<K, V>) map;
    expiring.clearAllStateForElementKey(
        expiring
            .org$apache$spark$sql$execution$streaming$operators$stateful$transformwithstate$ttl$MapStateImplWithTTL$$stateTypesEncoder()
            .encodeCompositeKey(key));
  }
}
