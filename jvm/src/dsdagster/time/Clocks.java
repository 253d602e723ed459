package dsdagster.time;

import dsdagster.OperatorFault;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The clocks of all jobs of this process.
 *
 * <p>A job's clock is registered before its query is built and lives for one run; registering again begins a new run,
 * which takes its time from the checkpoint. Configuration:
 *
 * <pre>
 * {"mode": "auto" | "manual", "span_micros": how far time must pass a row until nothing waits,
 *  "soonest_micros": how far at least, "grid_micros": 0 or the slide of the windows when time matters at their ends only,
 *  "step_micros": 50000,
 *  "inputs": {name: {"time": "broker" | "record", "bound_micros": n, "least_bound_micros": n, "idle_micros": n,
 *             "looks": true}}}
 * </pre>
 *
 * {@code least_bound_micros}: the bound for a broker that has been measured ({@link BrokerSkew}), else {@code bound_micros}.
 * {@code looks} is false for an input that no {@link TimedSource} wraps: its partitions are those seen, never idle.
 */
public final class Clocks {
  private static final ConcurrentHashMap<String, JobClock> JOBS = new ConcurrentHashMap<>();
  private static volatile Now now = Now.REAL;

  private Clocks() {}

  public static void register(String job, String configJson) {
    JOBS.put(job, new JobClock(job, Json.read(configJson)));
  }

  public static void remove(String job) {
    JOBS.remove(job);
  }

  /** Moves a job's time by hand: all rows before {@code micros} have been sent. */
  public static void advance(String job, long micros) {
    of(job).advance(micros);
  }

  /** Time, inputs, late counts as JSON; {@code null} as text for a job without clock. */
  public static String snapshot(String job) {
    JobClock clock = find(job);
    return clock == null ? "null" : Json.write(clock.snapshot());
  }

  /** The clock of a job, null without one. */
  static JobClock find(String job) {
    return JOBS.get(job);
  }

  static JobClock of(String job) {
    JobClock clock = job == null ? null : find(job);
    if (clock == null) {
      throw new OperatorFault("CLOCK_NOT_REGISTERED", "job " + job + " has no clock");
    }
    return clock;
  }

  static Now now() {
    return now;
  }

  /** Tests: both clocks stand at {@code micros}. */
  public static void setNow(long micros) {
    now = Now.fixed(micros);
  }

  /** Tests: time of day is so far ahead. */
  public static void setAhead(long micros) {
    now = Now.ahead(micros);
  }

  /** Tests: the machine's clocks again. */
  public static void useRealTime() {
    now = Now.REAL;
  }
}
