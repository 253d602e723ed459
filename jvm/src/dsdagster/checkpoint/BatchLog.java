package dsdagster.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.OperatorFault;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;

/**
 * The offset log and the commit log of a checkpoint, as Spark writes them, on any file system Hadoop knows.
 *
 * <p>Rule: Spark plans at most one batch more than it has finished. Other logs are refused as unreadable; Spark itself
 * would continue from such a checkpoint.
 */
public final class BatchLog {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final long NONE = -1;
  private final Path offsets;
  private final Path commits;
  private final Configuration hadoop;

  public BatchLog(String checkpoint, Configuration hadoop) {
    this.offsets = new Path(checkpoint, "offsets");
    this.commits = new Path(checkpoint, "commits");
    this.hadoop = hadoop;
  }

  public static BatchLog of(SparkSession session, String checkpoint) {
    return new BatchLog(checkpoint, session.sessionState().newHadoopConf());
  }

  /**
   * JSON of {@code committed} and {@code planned}, each null or a batch with its {@code batch}, {@code offsets}
   * (digest) and {@code ends}.
   */
  public static String tip(SparkSession session, String checkpoint) {
    BatchLog log = of(session, checkpoint);
    long planned = newest(log.offsets, log.hadoop);
    long committed = newest(log.commits, log.hadoop);
    if (planned != committed && planned != committed + 1) {
      throw unreadable("batch " + planned + " is the last one planned and batch " + committed + " the last one finished", null);
    }
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("committed", committed == NONE ? null : log.described(committed));
    found.put("planned", planned == committed ? null : log.described(planned));
    return json(found);
  }

  /** JSON of one planned batch. */
  public static String batch(SparkSession session, String checkpoint, long batch) {
    return json(of(session, checkpoint).described(batch));
  }

  private Map<String, Object> described(long batch) {
    EndOffsets end = endOffsets(batch);
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("batch", batch);
    found.put("offsets", end.digest());
    found.put("ends", end.json());
    return found;
  }

  /** Number of the newest planned batch; -1 without one. */
  public long newestPlanned() {
    return newest(offsets, hadoop);
  }

  /** Number of the newest finished batch; -1 without one. */
  public long newestCommitted() {
    return newest(commits, hadoop);
  }

  /** End offsets of a planned batch. */
  public EndOffsets endOffsets(long batch) {
    return EndOffsets.of(text(batch));
  }

  /** A planned batch's entry in the offset log. */
  public String text(long batch) {
    Path path = new Path(offsets, Long.toString(batch));
    try (InputStream in = path.getFileSystem(hadoop).open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException failure) {
      throw unreadable("the offset log has no batch " + batch, failure);
    }
  }

  private static long newest(Path folder, Configuration hadoop) {
    long last = NONE;
    try {
      FileSystem files = folder.getFileSystem(hadoop);
      for (FileStatus found : files.listStatus(folder)) {
        String name = found.getPath().getName();
        boolean isBatch = !name.isEmpty() && name.chars().allMatch(Character::isDigit);
        last = isBatch ? Math.max(last, Long.parseLong(name)) : last;
      }
    } catch (FileNotFoundException fresh) {
      return NONE;
    } catch (IOException failure) {
      throw unreadable("the batches of " + folder + " cannot be listed", failure);
    }
    return last;
  }

  private static String json(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  static OperatorFault unreadable(String what, IOException cause) {
    return new OperatorFault("CHECKPOINT_UNREADABLE", cause == null ? what : what + ": " + cause, cause);
  }
}
