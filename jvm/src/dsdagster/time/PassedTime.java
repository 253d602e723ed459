package dsdagster.time;

import java.io.Serializable;

/**
 * The time that a job had reached before the running batch: older rows are late.
 *
 * <p>Rule: operators have it as a field. Its value is read on the driver when Spark serializes an operator's tasks,
 * once per batch.
 */
public final class PassedTime implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String job;
  private final long micros;

  private PassedTime(String job, long micros) {
    this.job = job;
    this.micros = micros;
  }

  /** The passed time of a job; if {@code job} is null, no row is late. */
  public static PassedTime of(String job) {
    return new PassedTime(job, InputClock.HELD);
  }

  /** Microseconds; {@code Long.MIN_VALUE} if no time has passed yet. */
  public long micros() {
    return micros;
  }

  private Object writeReplace() {
    JobClock clock = job == null ? null : Clocks.find(job);
    return new PassedTime(null, clock == null ? micros : clock.passed());
  }
}
