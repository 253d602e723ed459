package dsdagster.rowlog;

import dsdagster.checkpoint.BatchLog;
import dsdagster.kafka.JobTransactions;
import dsdagster.kafka.RowLogTopic;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;

/**
 * The row logs of all running jobs: rows that a query leaves out. They are written when the batch has been computed and
 * before Spark records it as done. A replayed batch computes them again; the log's own marker shows whether the log has
 * them already.
 */
public final class RowLogs {
  private static final ConcurrentHashMap<String, Map<String, Log>> JOBS = new ConcurrentHashMap<>();

  private RowLogs() {}

  private static final ConcurrentHashMap<String, AtomicLong> TIMES = new ConcurrentHashMap<>();
  private static final ConcurrentHashMap<String, BatchTimes> CHECKPOINTS = new ConcurrentHashMap<>();
  private static final long MICROS = 1000;

  private record Log(LoggedRows rows, Map<String, String> options, Late late) {}

  /** Content of a log besides bad rows: none, late rows, or late rows with a field that says how late. */
  private enum Late {
    NO,
    YES,
    TOLD
  }

  /** Registers a log; {@code options}: options of {@link RowLogTopic}; empty if the caller uses {@link #take}. */
  public static void register(SparkContext context, String job, String log, Map<String, String> options) {
    LoggedRows rows = new LoggedRows(log);
    context.register(rows, "row_log");
    JOBS.computeIfAbsent(job, name -> new ConcurrentHashMap<>()).put(log, new Log(rows, new HashMap<>(options), Late.NO));
  }

  /** Registers a log of rows that are too late for their window; {@code told}: with {@code late_millis}. */
  public static void registerLate(
      SparkContext context, String job, String log, Map<String, String> options, boolean told) {
    LoggedRows rows = new LoggedRows(log);
    context.register(rows, "late_rows");
    Log made = new Log(rows, new HashMap<>(options), told ? Late.TOLD : Late.YES);
    JOBS.computeIfAbsent(job, name -> new ConcurrentHashMap<>()).put(log, made);
    TIMES.computeIfAbsent(job, name -> new AtomicLong(Long.MIN_VALUE));
  }

  /** Called before a job's query starts, with its checkpoint and the batch that logs may have already (-1: none). */
  public static void begin(SparkSession session, String job, String checkpoint, long replay) {
    for (Log log : JOBS.getOrDefault(job, Map.of()).values()) {
      log.options.put("checkpoint", checkpoint);
      log.options.put("replay.epoch", Long.toString(replay));
    }
    if (TIMES.containsKey(job)) {
      BatchTimes times = new BatchTimes(BatchLog.of(session, checkpoint));
      CHECKPOINTS.put(job, times);
      long newest = times.newest();
      timeMoves(job, newest == Long.MIN_VALUE ? newest : newest * MICROS);
    }
  }

  /** Upper bound of the times (microseconds) with which batches of the job are computed; null on executors. */
  static AtomicLong knownTime(String job) {
    return TIMES.get(job);
  }

  /** Called before a batch with this time is computed; jobs without logs of late rows ignore it. */
  public static void timeMoves(String job, long micros) {
    AtomicLong time = TIMES.get(job);
    if (time != null) {
      time.accumulateAndGet(micros, Math::max);
    }
  }

  static LoggedRows rows(SparkContext context, String job, String log) {
    Log found = JOBS.getOrDefault(job, Map.of()).get(log);
    if (found == null) {
      throw new IllegalStateException("job " + job + " has no log " + log);
    }
    return found.rows;
  }

  /** The logged rows of the last computed batch. */
  public static List<byte[]> take(String job, String log, long epoch) {
    return taken(job, JOBS.getOrDefault(job, Map.of()).get(log), epoch);
  }

  private static List<byte[]> taken(String job, Log log, long epoch) {
    List<byte[]> rows = log.rows.take();
    if (log.late == Late.NO || rows.isEmpty()) {
      return rows;
    }
    long closed = CHECKPOINTS.get(job).closedFor(epoch) * MICROS;
    List<byte[]> dropped = new ArrayList<>();
    for (byte[] row : rows) {
      ByteBuffer read = ByteBuffer.wrap(row);
      long end = read.getLong();
      if (end <= closed) {
        dropped.add(record(row, log.late == Late.TOLD ? (closed - end) / MICROS : -1));
      }
    }
    return dropped;
  }

  /** The log's record from a row (the text after the window's end); its last field is the lateness unless negative. */
  private static byte[] record(byte[] row, long lateMillis) {
    String text = new String(row, Long.BYTES, row.length - Long.BYTES, StandardCharsets.UTF_8);
    if (lateMillis >= 0) {
      String comma = text.length() > 2 ? "," : "";
      text = text.substring(0, text.length() - 1) + comma + "\"late_millis\":" + lateMillis + "}";
    }
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Writes the rows of a batch into their topics, each log in one transaction. */
  public static void flush(String job, long epoch) {
    for (Log log : JOBS.getOrDefault(job, Map.of()).values()) {
      List<byte[]> rows = taken(job, log, epoch);
      if (!rows.isEmpty()) {
        RowLogTopic.write(log.options, epoch, rows);
      }
    }
  }

  /** Removes the logs of a job that has ended. */
  public static void remove(String job) {
    Map<String, Log> logs = JOBS.remove(job);
    TIMES.remove(job);
    CHECKPOINTS.remove(job);
    if (logs != null) {
      for (Log log : logs.values()) {
        JobTransactions.release(log.options.getOrDefault("transactional.id", ""));
      }
    }
  }
}
