package dsdagster.rowlog;

import dsdagster.OperatorFault;
import java.util.Map;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.util.AccumulatorV2;

/**
 * Rows of one batch for one log. A task fills its own copy, Spark merges the copies of tasks that succeeded on the
 * driver, so a failed attempt leaves no trace.
 *
 * <p>Rule: at most {@link #MOST_BYTES} a batch, since the driver holds them; more fails the batch.
 */
final class LoggedRows extends AccumulatorV2<byte[], List<byte[]>> {
  private static final long serialVersionUID = 1L;
  static final long MOST_BYTES = 64L << 20;

  private final String log;
  private final ArrayList<byte[]> rows = new ArrayList<>();
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
    made.rows.addAll(rows);
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
    rows.add(row);
  }

  /** The driver must not fail here: {@link #take} reports too many rows. */
  @Override
  public void merge(AccumulatorV2<byte[], List<byte[]>> other) {
    List<byte[]> found = other.value();
    synchronized (this) {
      for (byte[] row : found) {
        bytes += row.length;
        if (bytes <= MOST_BYTES) {
          rows.add(row);
        }
      }
    }
  }

  @Override
  public synchronized List<byte[]> value() {
    return new ArrayList<>(rows);
  }

  /** All rows; none are left. */
  synchronized List<byte[]> take() {
    check();
    List<byte[]> found = new ArrayList<>(rows);
    reset();
    return found;
  }

  private void check() {
    if (bytes > MOST_BYTES) {
      throw OperatorFault.of("ROW_LOG_FULL", Map.of("log", log, "megabytes", MOST_BYTES >> 20));
    }
  }

  /** A running task's copy is not thread-safe and its rows do not count before it ends. */
  @Override
  public boolean excludeFromHeartbeat() {
    return true;
  }
}
