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
 * {"mode": "auto" | "manual", "span_micros": how far time must pass a row until nothing waits for it,
 *  "soonest_micros": how far time must pass a row until a step can emit it,
 *  "grid_micros": slide of the windows if only their ends matter, else 0,
 *  "step_micros": 50000,
 *  "inputs": {name: {"time": "broker" | "record", "bound_micros": n, "least_bound_micros": n, "idle_micros": n,
 *             "looks": true}}}
 * </pre>
 *
 * {@code least_bound_micros}: the bound for a broker that has been measured ({@link BrokerSkew}), else {@code
 * bound_micros}. {@code looks} is false for an input without a {@link TimedSource}: its partitions are those of its
 * rows, and never idle.
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

  /** Moves a job's time by hand: declares that all rows before {@code micros} have been sent. */
  public static void advance(String job, long micros) {
    of(job).advance(micros);
  }

  /** Time, inputs and late counts as JSON; the text {@code null} for a job without a clock. */
  public static String snapshot(String job) {
    JobClock clock = find(job);
    return clock == null ? "null" : Json.write(clock.snapshot());
  }

  /** The clock of a job; null without one. */
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

  /** For tests: fixes both clocks at {@code micros}. */
  public static void setNow(long micros) {
    now = Now.fixed(micros);
  }

  /** For tests: sets the time of day ahead. */
  public static void setAhead(long micros) {
    now = Now.ahead(micros);
  }

  /** For tests: uses the machine's clocks again. */
  public static void useRealTime() {
    now = Now.REAL;
  }
}
