package dsdagster.delta;

import java.io.Serializable;
import java.time.Duration;
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
}
