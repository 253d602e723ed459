package dsdagster.time;

/**
 * Estimates, from the timestamps of records alone, how far this machine's clock is ahead of the clock of a broker that
 * stamps records, and how late after its stamp a record can be read.
 *
 * <p>A record that a look found was stamped before the look ended: this gives an upper bound of the clocks'
 * difference. A record that arrived after a look which had read to the end was stamped after that look: this gives a
 * lower bound. A batch may last longer than the clocks differ, so its oldest record is used for the lower bound. A
 * difference up to the lateness bound does no harm. If it is proven to be larger, or if it may be larger and rows have
 * only begun to flow, the input is complete only up to the broker's own time. Otherwise the clocks are assumed to
 * agree, as synchronized clocks do. Differences are kept against elapsed time, so setting a clock has no effect.
 *
 * <p>Once rows have flowed for a while ({@link #MEASURED_LOOKS}, {@link #PROOF_MICROS}) the broker's time is known
 * without this machine's clock: it is at least the newest stamp plus the time elapsed since that was read. With every
 * batch it is measured how much older than that later records are. The bound is then the least bound plus twice that
 * spread, at most the configured bound, unless the clocks differ by more than the bound. Measurements are forgotten
 * after some minutes, since clocks drift.
 *
 * <p>Times in microseconds. Not thread-safe: its job's clock guards it.
 */
final class BrokerSkew {
  /** Microseconds of flowing rows after which a difference that was not proven counts as a pause between rows. */
  static final long PROOF_MICROS = 5_000_000;
  /** Number of looks that read to the end, each followed by rows, until a broker counts as measured. */
  static final int MEASURED_LOOKS = 20;

  private static final long UNKNOWN = Long.MAX_VALUE;
  private static final long CLOCK_WINDOW_MICROS = 60_000_000;
  private static final long SPREAD_WINDOW_MICROS = 600_000_000;

  /**
   * Conclusion of a look that found an input read to its end.
   *
   * @param until time up to which all stamped records have arrived
   * @param time event time that has passed then: {@code until} less the bound
   */
  record Claim(long until, long time) {}

  /** Elapsed time minus broker time is at most this. */
  private long atMost = UNKNOWN;
  /** And at least this. */
  private long atLeast = Long.MIN_VALUE;
  private long firstRows = UNKNOWN;
  private int measuredLooks;
  private final Recent closest = new Recent(CLOCK_WINDOW_MICROS);
  private final Recent spread = new Recent(SPREAD_WINDOW_MICROS);

  /**
   * Learns from the records of one batch.
   *
   * @param newest newest stamp
   * @param oldest oldest stamp
   * @param found elapsed-time clock at the end of the look that found them
   * @param after elapsed-time clock before an earlier look that had read to the end before these records;
   *     {@link PartitionClock#NONE} if there is none
   */
  void rows(long newest, long oldest, long found, long after) {
    atMost = Math.min(atMost, found - newest);
    closest.add(found - newest, found);
    firstRows = Math.min(firstRows, found);
    if (after != PartitionClock.NONE) {
      atLeast = Math.max(atLeast, after - oldest);
      spread.add(-Math.max(0, after - oldest - closest.least(found)), found);
      measuredLooks++;
    }
  }

  /** Whether a record has been seen. */
  boolean isKnown() {
    return atMost != UNKNOWN;
  }

  /**
   * The claim of a look that found the input read to its end, made at a moment given by both of this machine's clocks.
   *
   * @param bound lateness bound: how far records may be out of order
   * @param leastBound lower limit of the bound for a measured broker; equal to {@code bound}: the bound is never
   *     lowered
   */
  Claim claim(long wall, long steady, long bound, long leastBound) {
    long ahead = closest.least(steady);
    boolean isMeasured = ahead != Recent.NONE && ahead + wall - steady <= bound && measuredLooks >= MEASURED_LOOKS
        && steady - firstRows >= PROOF_MICROS;
    if (leastBound < bound && isMeasured) {
      long until = steady - ahead;
      return new Claim(until, until - Math.min(bound, leastBound + 2 * latest(steady)));
    }
    long agreed = agreedTime(wall, steady, bound);
    return new Claim(agreed, agreed - bound);
  }

  /** Largest amount by which a record of the last minutes was older than an earlier claim. */
  private long latest(long steady) {
    long least = spread.least(steady);
    return least == Recent.NONE ? 0 : -least;
  }

  /** The broker's time by this machine's clock, limited to the time up to which the clocks certainly agree. */
  private long agreedTime(long wall, long steady, long bound) {
    if (atMost == UNKNOWN) {
      return wall;
    }
    long ahead = atMost + wall - steady;
    boolean isProven = atLeast + wall - steady > bound && atLeast != Long.MIN_VALUE;
    boolean mayBe = steady - firstRows < PROOF_MICROS;
    return ahead > bound && (isProven || mayBe) ? wall - ahead : wall;
  }

  /** The proven part of the difference; 0 if nothing is proven. */
  long provenAhead(long wall, long steady) {
    return atLeast == Long.MIN_VALUE ? 0 : Math.max(0, atLeast + wall - steady);
  }

  /** The smallest value of the last one to two windows of elapsed time. */
  private static final class Recent {
    static final long NONE = Long.MAX_VALUE;
    private final long window;
    private long begun = PartitionClock.NONE;
    private long current = NONE;
    private long before = NONE;

    Recent(long window) {
      this.window = window;
    }

    void add(long value, long steady) {
      turn(steady);
      current = Math.min(current, value);
    }

    long least(long steady) {
      turn(steady);
      return Math.min(current, before);
    }

    private void turn(long steady) {
      if (begun != PartitionClock.NONE && steady - begun < window) {
        return;
      }
      before = begun != PartitionClock.NONE && steady - begun < 2 * window ? current : NONE;
      current = NONE;
      begun = steady;
    }
  }
}
