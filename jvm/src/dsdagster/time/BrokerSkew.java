package dsdagster.time;

/**
 * How far this machine's clock is ahead of that of a broker which stamps records, told by the stamps alone, and how late
 * after its stamp a record can be read.
 *
 * <p>A record that a look found was stamped before the look ended: the clocks differ by at most what lies between. A
 * record that came after a look which read to the end was stamped after it: they differ by at least what lies between.
 * A batch may last longer than the clocks differ, so its oldest record tells that. Where the difference is at most the
 * lateness bound it does no harm. Where it is proven to be more, or may be and rows have only begun to flow, the input is
 * complete only up to the broker's own time; else clocks are taken to agree, as they do where both are synchronised.
 * Differences are kept against elapsed time, so a clock that is set does not matter.
 *
 * <p>Once rows have flowed for a while ({@link #MEASURED_LOOKS}, {@link #PROOF_MICROS}) the broker's time is known
 * without this machine's clock: it is at least the newest stamp plus what has elapsed since it was read. How much older
 * than that a record was which came later is measured with every batch. Then the least bound and twice that spread are
 * enough, at most the bound, unless the clocks differ by more than the bound. Measurements are forgotten after some
 * minutes: clocks drift.
 *
 * <p>Times in microseconds. Not thread-safe: its job's clock guards it.
 */
final class BrokerSkew {
  /** How long rows have to flow until a difference that was not proven is taken for a pause. */
  static final long PROOF_MICROS = 5_000_000;
  /** Looks that read to the end, each with rows behind it, until a broker counts as measured. */
  static final int MEASURED_LOOKS = 20;

  private static final long UNKNOWN = Long.MAX_VALUE;
  private static final long CLOCK_WINDOW_MICROS = 60_000_000;
  private static final long SPREAD_WINDOW_MICROS = 600_000_000;

  /**
   * What a look says of an input that it found read to its end.
   *
   * @param until all that was stamped up to here has come
   * @param time which event time has passed then: less, by the bound
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
   * Records that came with one batch.
   *
   * @param newest stamp of them
   * @param oldest stamp of them
   * @param found elapsed-time clock when the look that found them had ended
   * @param after the same before an earlier look that had read to the end in front of them, {@link PartitionClock#NONE}
   *     without one
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
   * What a look proves that is made at a moment known by both of our clocks.
   *
   * @param bound how far records may be behind one another
   * @param leastBound the same where the broker has been measured; {@code bound}: never less
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

  /** By how much the latest record of the last minutes was older than a claim it came after. */
  private long latest(long steady) {
    long least = spread.least(steady);
    return least == Recent.NONE ? 0 : -least;
  }

  /** The broker's time by this machine's clock, as far as it is certain that they agree. */
  private long agreedTime(long wall, long steady, long bound) {
    if (atMost == UNKNOWN) {
      return wall;
    }
    long ahead = atMost + wall - steady;
    boolean isProven = atLeast + wall - steady > bound && atLeast != Long.MIN_VALUE;
    boolean mayBe = steady - firstRows < PROOF_MICROS;
    return ahead > bound && (isProven || mayBe) ? wall - ahead : wall;
  }

  /** What is proven, 0 for nothing. */
  long provenAhead(long wall, long steady) {
    return atLeast == Long.MIN_VALUE ? 0 : Math.max(0, atLeast + wall - steady);
  }

  /** The least of the values of the last one to two windows of elapsed time. */
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
