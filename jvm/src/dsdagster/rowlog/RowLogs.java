package dsdagster.rowlog;

import dsdagster.kafka.JobTransactions;
import dsdagster.kafka.RowLogTopic;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;

/**
 * The logs of all running jobs: rows that a query leaves out and keeps elsewhere. They are written when the batch has
 * been computed and before Spark notes it as done; a replayed batch computes them anew, and the log's own marker tells
 * whether it has them.
 */
public final class RowLogs {
  private static final ConcurrentHashMap<String, Map<String, Log>> JOBS = new ConcurrentHashMap<>();

  private RowLogs() {}

  private record Log(LoggedRows rows, Map<String, String> options) {}

  /** {@code options}: of {@link RowLogTopic}; empty for a log that somebody else {@link #take}s. */
  public static void register(SparkContext context, String job, String log, Map<String, String> options) {
    LoggedRows rows = new LoggedRows(log);
    context.register(rows, "row_log");
    JOBS.computeIfAbsent(job, name -> new ConcurrentHashMap<>()).put(log, new Log(rows, options));
  }

  static LoggedRows rows(SparkContext context, String job, String log) {
    Log found = JOBS.getOrDefault(job, Map.of()).get(log);
    if (found == null) {
      throw new IllegalStateException("job " + job + " has no log " + log);
    }
    return found.rows;
  }

  /** The rows of the batch that has just been computed. */
  public static List<byte[]> take(String job, String log) {
    return JOBS.getOrDefault(job, Map.of()).get(log).rows.take();
  }

  /** Writes the rows of a batch into their topics, each log in one transaction. */
  public static void flush(String job, long epoch) {
    for (Log log : JOBS.getOrDefault(job, Map.of()).values()) {
      List<byte[]> rows = log.rows.take();
      if (!rows.isEmpty()) {
        RowLogTopic.write(log.options, epoch, rows);
      }
    }
  }

  /** Forgets the logs of a job that has ended. */
  public static void remove(String job) {
    Map<String, Log> logs = JOBS.remove(job);
    if (logs != null) {
      for (Log log : logs.values()) {
        JobTransactions.release(log.options.getOrDefault("transactional.id", ""));
      }
    }
  }
}
