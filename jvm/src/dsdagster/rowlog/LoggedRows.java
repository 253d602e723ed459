package dsdagster.rowlog;

import dsdagster.OperatorFault;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * Rows of one batch for one log, by task. A task fills its own copy; on the driver Spark merges the copies of
 * successful tasks, so a failed attempt has no effect. A successful task runs again if its output is lost with its
 * executor; its rows are then not added twice.
 *
 * <p>Rule: at most {@link #MOST_BYTES} a batch, since the driver holds them; more bytes fail the batch.
 */
final class LoggedRows extends AccumulatorV2<byte[], List<byte[]>> {
  private static final long serialVersionUID = 1L;
  static final long MOST_BYTES = 64L << 20;
  private static final long NO_TASK = -1;

  private final String log;
  /** Stage and partition → rows. */
  private final LinkedHashMap<Long, ArrayList<byte[]>> rows = new LinkedHashMap<>();
  private long bytes;

  LoggedRows(String log) {
    this.log = log;
  }

  @Override
  public synchronized boolean isZero() {
    return rows.isEmpty() && bytes == 0;
  }

  @Override
  public synchronized AccumulatorV2<byte[], List<byte[]>> copy() {
    LoggedRows made = new LoggedRows(log);
    rows.forEach((task, some) -> made.rows.put(task, new ArrayList<>(some)));
    made.bytes = bytes;
    return made;
  }

  @Override
  public AccumulatorV2<byte[], List<byte[]>> copyAndReset() {
    return new LoggedRows(log);
  }

  @Override
  public synchronized void reset() {
    rows.clear();
    bytes = 0;
  }

  @Override
  public synchronized void add(byte[] row) {
    bytes += row.length;
    check();
    rows.computeIfAbsent(task(), number -> new ArrayList<>()).add(row);
  }

  private static long task() {
    TaskContext task = TaskContext.get();
    return task == null ? NO_TASK : ((long) task.stageId() << Integer.SIZE) | task.partitionId();
  }

  /** The driver must not fail here: {@link #take} reports too many rows. */
  @Override
  public void merge(AccumulatorV2<byte[], List<byte[]>> other) {
    LinkedHashMap<Long, ArrayList<byte[]>> merged = ((LoggedRows) other).rows;
    synchronized (this) {
      merged.forEach(this::merge);
    }
  }

  private void merge(long task, List<byte[]> some) {
    if (rows.containsKey(task)) {
      return;
    }
    ArrayList<byte[]> taken = new ArrayList<>();
    rows.put(task, taken);
    for (byte[] row : some) {
      bytes += row.length;
      if (bytes <= MOST_BYTES) {
        taken.add(row);
      }
    }
  }

  @Override
  public synchronized List<byte[]> value() {
    List<byte[]> all = new ArrayList<>();
    rows.values().forEach(all::addAll);
    return all;
  }

  /** Removes and returns all rows. */
  synchronized List<byte[]> take() {
    check();
    List<byte[]> found = value();
    reset();
    return found;
  }

  private void check() {
    if (bytes > MOST_BYTES) {
      throw OperatorFault.of("ROW_LOG_FULL", Map.of("log", log, "megabytes", MOST_BYTES >> 20));
    }
  }

  /** A running task's copy is not thread-safe, and its rows do not count before the task ends. */
  @Override
  public boolean excludeFromHeartbeat() {
    return true;
  }
}
