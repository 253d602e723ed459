package dsdagster.delta;

import java.io.Serializable;
import java.time.Duration;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;

/**
 * How long an operator keeps what no change touches.
 *
 * <p>Rules: without one ({@code millis} 0) state is kept for ever and a row that goes without having come is a fault.
 * With one such a row is one whose state was forgotten, and is left out. Spark forgets by the time of a batch, which
 * stands in the checkpoint, so that a replayed batch sees the same state.
 */
public record Expiry(long millis) implements Serializable {
  public boolean isSet() {
    return millis > 0;
  }

  public TTLConfig config() {
    return isSet() ? new TTLConfig(Duration.ofMillis(millis)) : TTLConfig.NONE();
  }

  /** Only an operator in processing time may forget. */
  public TimeMode timeMode() {
    return isSet() ? TimeMode.ProcessingTime() : TimeMode.None();
  }
}
