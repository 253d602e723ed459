package dsdagster.rowlog;

import dsdagster.checkpoint.BatchLog;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The watermark of a checkpoint's batches, as its offset log has it. What a window drops as late in a batch is what ends
 * at or before the watermark of the batch in front of it: that is Spark's own rule, and the offset log what it reads
 * itself when it replays.
 */
final class BatchTimes {
  private static final Pattern WATERMARK = Pattern.compile("\"batchWatermarkMs\":\\s*(\\d+)");
  private final BatchLog log;

  BatchTimes(BatchLog log) {
    this.log = log;
  }

  /** Windows that end at or before this (epoch milliseconds) are closed for the rows of a batch. */
  long closedFor(long batch) {
    return batch == 0 ? 0 : watermark(batch - 1);
  }

  /** The watermark of the newest batch, below all time without one. */
  long newest() {
    long last = log.newestPlanned();
    return last < 0 ? Long.MIN_VALUE : watermark(last);
  }

  private long watermark(long batch) {
    Matcher found = WATERMARK.matcher(log.text(batch));
    return found.find() ? Long.parseLong(found.group(1)) : 0;
  }
}
