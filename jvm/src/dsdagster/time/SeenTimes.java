package dsdagster.time;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.util.AccumulatorV2;

/**
 * Partition → newest event time read, and the oldest of those not {@link #take taken} yet. A task fills its own copy, Spark merges the copies of tasks that succeeded on the
 * driver, so a failed attempt leaves no trace and a repeated one changes nothing.
 */
final class SeenTimes extends AccumulatorV2<Map<String, long[]>, Map<String, long[]>> {
  private static final long serialVersionUID = 1L;
  /** No row came. */
  static final long NONE = Long.MAX_VALUE;
  private final HashMap<String, long[]> cells = new HashMap<>();

  /** The cell of a partition (newest, oldest), to be widened in place by the one task that owns this copy. */
  long[] cell(String partition) {
    return cells.computeIfAbsent(partition, name -> new long[] {Long.MIN_VALUE, NONE});
  }

  static void widen(long[] cell, long newest, long oldest) {
    if (newest > cell[0]) {
      cell[0] = newest;
    }
    if (oldest < cell[1]) {
      cell[1] = oldest;
    }
  }

  @Override
  public boolean isZero() {
    return cells.isEmpty();
  }

  @Override
  public synchronized AccumulatorV2<Map<String, long[]>, Map<String, long[]>> copy() {
    SeenTimes made = new SeenTimes();
    made.add(cells);
    return made;
  }

  @Override
  public AccumulatorV2<Map<String, long[]>, Map<String, long[]>> copyAndReset() {
    return new SeenTimes();
  }

  @Override
  public synchronized void reset() {
    cells.clear();
  }

  @Override
  public synchronized void add(Map<String, long[]> times) {
    times.forEach((partition, time) -> widen(cell(partition), time[0], time[1]));
  }

  @Override
  public void merge(AccumulatorV2<Map<String, long[]>, Map<String, long[]>> other) {
    add(other.value());
  }

  /** A copy; Spark's own threads read it while the driver merges. */
  @Override
  public synchronized Map<String, long[]> value() {
    HashMap<String, long[]> made = new HashMap<>();
    cells.forEach((partition, time) -> made.put(partition, time.clone()));
    return made;
  }

  /** The driver's copy; the next one has the oldest of the rows that come from now on. */
  synchronized Map<String, long[]> take() {
    Map<String, long[]> taken = value();
    cells.values().forEach(cell -> cell[1] = NONE);
    return taken;
  }

  /** A running task's copy is not thread-safe and its values do not count before it ends. */
  @Override
  public boolean excludeFromHeartbeat() {
    return true;
  }
}
