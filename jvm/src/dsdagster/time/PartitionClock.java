package dsdagster.time;

import java.util.function.Supplier;

/**
 * The known time of one partition. Times in microseconds; {@link #NONE} if unknown. Not thread-safe: its job's clock
 * guards it.
 */
final class PartitionClock {
  static final long NONE = Long.MIN_VALUE;

  /** Newest event time read. */
  long newest = NONE;
  /** Claim up to which all records have been read; null if there is none. */
  private Supplier<BrokerSkew.Claim> complete;
  /** Claim of the last look; null if there is none. */
  private Supplier<BrokerSkew.Claim> claimed;
  /** Broker that stamps its records; null if unknown. */
  String leader;
  /**
   * The batch being planned has the first records of its broker: the broker's time is known only from these records.
   */
  boolean isBrokerUnknown;
  /** The source says itself until when it is complete. */
  private boolean reports;
  /** Records between the reader and the end. */
  long backlog;
  boolean openTransaction;
  /** Read to its final end (a closed shard): has no effect on time any more. */
  boolean closed;
  /** In a run with a frozen end: had unread rows at the last look or the one before. */
  boolean unfinished;
  /** Elapsed time of a look that had found the end before the rows of the batch being planned; or {@link #NONE}. */
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
   * Processes a successful look at the partition.
   *
   * @param start position up to which records have been read and committed; null: none
   * @param batchEnd position at the end of the batch that is being planned
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

  /**
   * Processes a look with the time at which the end was last seen (or {@link #NONE}); only that time counts as the
   * end. What an earlier look without a report has concluded from a broker's clock is dropped.
   */
  void lookReported(String start, String end, long completeUntil) {
    if (!reports) {
      reports = true;
      isBrokerUnknown = false;
      complete = null;
      claimed = null;
      candidate = null;
      candidateEnd = null;
    }
    if (completeUntil == NONE) {
      look(start, end, end, 0);
      atEndSince = NONE;
      unfinished = true; // more rows may follow before a frozen end, even if there are none now
      return;
    }
    look(start, end, end, completeUntil);
  }

  /**
   * Remembers an end of the log; rows after it were stamped after the look that found it.
   *
   * @param start position up to which records have been read and committed
   * @param end end of the log, including open transactions
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
   * Remembers a claim that becomes valid when all records before {@code end} have been read: at once if this batch
   * reads up to there (its tick is valid after its rows), otherwise with a later batch. Only one claim is open at a
   * time: under steady load a newer one would never become valid. A claim is evaluated whenever it is used, with the
   * newest knowledge of the broker's clock.
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

  /** Event time that has passed with the records that have been read: their time less the bound. */
  long completeTime() {
    return complete == null ? NONE : complete.get().time();
  }

  /** Time that the last look has claimed, if all its records have been read; else {@link #NONE}. */
  long claimed() {
    if (claimed == null || complete == null) {
      return NONE;
    }
    long until = claimed.get().until();
    return complete.get().until() < until ? NONE : until;
  }

  /** Called when a look failed: the silence counted so far proves nothing. */
  void lookFailed() {
    atEndSince = NONE;
  }

  /** Whether it has been empty for at least {@code timeout}, counted from a look that found its end. */
  boolean isIdle(long timeout) {
    return atEndSince != NONE && atEndUntil - atEndSince >= timeout;
  }

  void raiseNewest(long time) {
    newest = Math.max(newest, time);
  }
}
