package dsdagster.time;

import java.util.function.Supplier;

/**
 * What is known of one partition. Times in microseconds; {@link #NONE} where nothing is known. Not thread-safe: its
 * job's clock guards it.
 */
final class PartitionClock {
  static final long NONE = Long.MIN_VALUE;

  /** Newest event time read. */
  long newest = NONE;
  /** What has been read up to, null for nothing. */
  private Supplier<BrokerSkew.Claim> complete;
  /** What the last look has claimed to be complete, null for nothing. */
  private Supplier<BrokerSkew.Claim> claimed;
  /** Whoever stamps its records, null where that is not known. */
  String leader;
  /** The batch being made brings the first records of its broker: they will tell that broker's time, a look does not. */
  boolean isBrokerUnknown;
  /** Records between the reader and the end. */
  long backlog;
  boolean openTransaction;
  /** Drained for good (a closed shard): says nothing about time any more. */
  boolean closed;
  /** In a run with a frozen end: had rows to read at the last look or the one before. */
  boolean unfinished;
  /** Elapsed time of a look which had read to the end in front of the rows of the batch being made, or {@link #NONE}. */
  long emptyAt = NONE;
  private String markEnd;
  private long markSteady;
  private String lastStart;
  private boolean looked;
  private Supplier<BrokerSkew.Claim> candidate;
  private String candidateEnd;
  private long atEndSince = NONE;
  private long atEndUntil = NONE;

  /**
   * A successful look at the partition.
   *
   * @param start what has been read and committed, null for nothing
   * @param batchEnd what the batch the look is for will have read
   * @param end end known to the source
   * @param steady elapsed-time clock of the look
   */
  void look(String start, String batchEnd, String end, long steady) {
    boolean atEnd = Positions.reached(start, end);
    unfinished = !atEnd || (looked && !Positions.reached(lastStart, end));
    looked = true;
    lastStart = start;
    backlog = Positions.distance(start, end);
    if (!atEnd) {
      atEndSince = NONE;
    } else {
      atEndSince = atEndSince == NONE ? steady : atEndSince;
      atEndUntil = steady;
    }
    settle(batchEnd);
  }

  /** A look that told when the end was last seen (or {@link #NONE}): only such a moment counts as being at the end. */
  void lookReported(String start, String end, long completeUntil) {
    if (completeUntil == NONE) {
      look(start, end, end, 0);
      atEndSince = NONE;
      unfinished = true; // nothing to read now does not mean that nothing is to come before a frozen end
      return;
    }
    look(start, end, end, completeUntil);
  }

  /**
   * Remembers an end of the log; rows behind it were stamped after the look that found it.
   *
   * @param start what has been read and committed
   * @param end of the log, open transactions included
   * @param steady elapsed-time clock before the look
   */
  void mark(String start, String end, long steady) {
    boolean isPast = markEnd != null && Positions.reached(start, markEnd);
    emptyAt = isPast ? markSteady : NONE;
    if (isPast || markEnd == null) {
      markEnd = end;
      markSteady = steady;
    }
  }

  private void settle(String batchEnd) {
    if (candidateEnd != null && Positions.reached(batchEnd, candidateEnd)) {
      keep(candidate);
      candidateEnd = null;
    }
  }

  /**
   * All that a claim names lies before {@code end}; known at once when the batch reads up to there (a tick in that batch
   * holds behind its rows), later when one does. One such promise is kept open at a time: a newer one would never be met
   * under steady load. A claim is asked for whenever it is used: what is known of a broker's clock by then counts.
   */
  void promise(String batchEnd, String end, Supplier<BrokerSkew.Claim> claim) {
    claimed = claim;
    if (Positions.reached(batchEnd, end)) {
      keep(claim);
      candidateEnd = null;
    } else if (candidateEnd == null) {
      candidate = claim;
      candidateEnd = end;
    }
  }

  private void keep(Supplier<BrokerSkew.Claim> claim) {
    if (complete == null || claim.get().until() >= complete.get().until()) {
      complete = claim;
    }
  }

  /** Event time that has passed with all that has been read: less, by the bound. */
  long completeTime() {
    return complete == null ? NONE : complete.get().time();
  }

  /** What the last look has claimed where all of it has been read, else {@link #NONE}. */
  long claimed() {
    if (claimed == null || complete == null) {
      return NONE;
    }
    long until = claimed.get().until();
    return complete.get().until() < until ? NONE : until;
  }

  /** A look failed: whatever silence was counted so far proves nothing. */
  void lookFailed() {
    atEndSince = NONE;
  }

  /** Empty since at least {@code timeout}, counted from a look that found its end. */
  boolean isIdle(long timeout) {
    return atEndSince != NONE && atEndUntil - atEndSince >= timeout;
  }

  void raiseNewest(long time) {
    newest = Math.max(newest, time);
  }
}
