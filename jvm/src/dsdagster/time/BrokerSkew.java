package dsdagster.time;

/**
 * How far this machine's clock is ahead of the broker's that stamps an input, told by the stamps alone.
 *
 * <p>A record that a look found was stamped before the look ended: the clocks differ by at most what lies between. A
 * record that came after a look which read to the end was stamped after it: they differ by at least what lies between.
 * Where the difference is at most the lateness bound it does no harm. Where it is proven to be more, or may be and rows
 * have only begun to flow, the input is complete only up to the broker's own time; else clocks are taken to agree, as
 * they do where both are synchronised. Differences are kept against elapsed time, so a clock that is set does not matter.
 * Times in microseconds. Not thread-safe: its job's clock guards it.
 */
final class BrokerSkew {
  private static final long UNKNOWN = Long.MAX_VALUE;
  /** How long rows have to flow until a difference that was not proven is taken for a pause. */
  private static final long PROOF_MICROS = 5_000_000;

  private final long bound;
  /** Elapsed time minus broker time is at most this. */
  private long atMost = UNKNOWN;
  /** And at least this. */
  private long atLeast = Long.MIN_VALUE;
  private long firstRows = UNKNOWN;

  BrokerSkew(long bound) {
    this.bound = bound;
  }

  /**
   * A record's stamp.
   *
   * @param stamp the newest of those that came
   * @param found elapsed-time clock when the look that found it had ended
   * @param after the same before an earlier look that had read to the end in front of it, {@link PartitionClock#NONE}
   *     without one
   */
  void rows(long stamp, long found, long after) {
    atMost = Math.min(atMost, found - stamp);
    if (after != PartitionClock.NONE) {
      atLeast = Math.max(atLeast, after - stamp);
    }
    firstRows = Math.min(firstRows, found);
  }

  /** Whether a record has been seen. */
  boolean isKnown() {
    return atMost != UNKNOWN;
  }

  /** The broker's time at a moment that is known by both of our clocks, as far as it is certain. */
  long brokerTime(long wall, long steady) {
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
}
