package dsdagster.time;

import java.io.Serializable;

/**
 * The time that a job had reached before the batch that runs: a row that is older came late.
 *
 * <p>Rule: operators hold it. Its value is taken on the driver when Spark serializes an operator's tasks, once a batch.
 */
public final class PassedTime implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String job;
  private final long micros;

  private PassedTime(String job, long micros) {
    this.job = job;
    this.micros = micros;
  }

  /** Of a job; null: of none, where nothing is late. */
  public static PassedTime of(String job) {
    return new PassedTime(job, InputClock.HELD);
  }

  /** Microseconds; {@code Long.MIN_VALUE}: none yet. */
  public long micros() {
    return micros;
  }

  private Object writeReplace() {
    JobClock clock = job == null ? null : Clocks.find(job);
    return new PassedTime(null, clock == null ? micros : clock.passed());
  }
}
