package dsdagster.rowlog;

import dsdagster.OperatorFault;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The watermark of a checkpoint's batches, as its offset log has it. What a window drops as late in a batch is what ends
 * at or before the watermark of the batch in front of it: that is Spark's own rule, and the offset log what it reads
 * itself when it replays.
 */
final class BatchTimes {
  private static final Pattern WATERMARK = Pattern.compile("\"batchWatermarkMs\":\\s*(\\d+)");
  private final Path offsets;
  private final Configuration hadoop;

  BatchTimes(String checkpoint, Configuration hadoop) {
    this.offsets = new Path(checkpoint, "offsets");
    this.hadoop = hadoop;
  }

  /** Windows that end at or before this (epoch milliseconds) are closed for the rows of a batch. */
  long closedFor(long batch) {
    return batch == 0 ? 0 : watermark(new Path(offsets, Long.toString(batch - 1)));
  }

  /** The watermark of the newest batch, below all time without one. */
  long newest() {
    long last = -1;
    try {
      for (FileStatus found : offsets.getFileSystem(hadoop).listStatus(offsets)) {
        String name = found.getPath().getName();
        last = name.chars().allMatch(Character::isDigit) ? Math.max(last, Long.parseLong(name)) : last;
      }
    } catch (FileNotFoundException fresh) {
      return Long.MIN_VALUE;
    } catch (IOException failure) {
      throw unreadable(failure);
    }
    return last < 0 ? Long.MIN_VALUE : watermark(new Path(offsets, Long.toString(last)));
  }

  private long watermark(Path path) {
    try {
      FileSystem files = path.getFileSystem(hadoop);
      try (InputStream in = files.open(path)) {
        Matcher found = WATERMARK.matcher(new String(in.readAllBytes(), StandardCharsets.UTF_8));
        return found.find() ? Long.parseLong(found.group(1)) : 0;
      }
    } catch (IOException failure) {
      throw unreadable(failure);
    }
  }

  private static OperatorFault unreadable(IOException failure) {
    return new OperatorFault("CHECKPOINT_UNREADABLE", "the offset log cannot be read", failure);
  }
}
