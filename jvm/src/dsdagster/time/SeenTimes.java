package dsdagster.time;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.util.AccumulatorV2;

/**
 * Partition → newest event time read. A task fills its own copy, Spark merges the copies of tasks that succeeded on the
 * driver, so a failed attempt leaves no trace and a repeated one changes nothing.
 */
final class SeenTimes extends AccumulatorV2<Map<String, long[]>, Map<String, long[]>> {
  private static final long serialVersionUID = 1L;
  private final HashMap<String, long[]> newest = new HashMap<>();

  /** The cell of a partition, to be raised in place by the one task that owns this copy. */
  long[] cell(String partition) {
    return newest.computeIfAbsent(partition, name -> new long[] {Long.MIN_VALUE});
  }

  @Override
  public boolean isZero() {
    return newest.isEmpty();
  }

  @Override
  public synchronized AccumulatorV2<Map<String, long[]>, Map<String, long[]>> copy() {
    SeenTimes made = new SeenTimes();
    made.add(newest);
    return made;
  }

  @Override
  public AccumulatorV2<Map<String, long[]>, Map<String, long[]>> copyAndReset() {
    return new SeenTimes();
  }

  @Override
  public synchronized void reset() {
    newest.clear();
  }

  @Override
  public synchronized void add(Map<String, long[]> times) {
    times.forEach((partition, time) -> raise(partition, time[0]));
  }

  @Override
  public void merge(AccumulatorV2<Map<String, long[]>, Map<String, long[]>> other) {
    add(other.value());
  }

  private void raise(String partition, long time) {
    long[] cell = cell(partition);
    cell[0] = Math.max(cell[0], time);
  }

  /** A copy; Spark's own threads read it while the driver merges. */
  @Override
  public synchronized Map<String, long[]> value() {
    HashMap<String, long[]> made = new HashMap<>();
    newest.forEach((partition, time) -> made.put(partition, new long[] {time[0]}));
    return made;
  }

  /** A running task's copy is not thread-safe and its values do not count before it ends. */
  @Override
  public boolean excludeFromHeartbeat() {
    return true;
  }
}
