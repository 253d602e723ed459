package dsdagster.rowlog;

import dsdagster.checkpoint.BatchLog;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The watermarks of a checkpoint's batches, from its offset log. In a batch a window drops rows as late whose window
 * ends at or before the watermark of the previous batch: this is Spark's own rule, and Spark itself reads the offset
 * log when it replays.
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

  /** The watermark of the newest batch; without one a time before all others. */
  long newest() {
    long last = log.newestPlanned();
    return last < 0 ? Long.MIN_VALUE : watermark(last);
  }

  private long watermark(long batch) {
    Matcher found = WATERMARK.matcher(log.text(batch));
    return found.find() ? Long.parseLong(found.group(1)) : 0;
  }
}
