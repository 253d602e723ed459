package dsdagster.time;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.util.AccumulatorV2;

/**
 * Partition → newest event time read, and the oldest one that was not {@link #take taken} yet. A task fills its own
 * copy; on the driver Spark merges the copies of successful tasks, so a failed attempt has no effect and a repeated
 * one changes nothing.
 */
final class SeenTimes extends AccumulatorV2<Map<String, long[]>, Map<String, long[]>> {
  private static final long serialVersionUID = 1L;
  /** Stands for the oldest time if no row was read. */
  static final long NONE = Long.MAX_VALUE;
  private final HashMap<String, long[]> cells = new HashMap<>();

  /** The cell of a partition (newest, oldest); the task that owns this copy updates it in place. */
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

  /** A copy, since Spark's own threads read it while the driver merges. */
  @Override
  public synchronized Map<String, long[]> value() {
    HashMap<String, long[]> made = new HashMap<>();
    cells.forEach((partition, time) -> made.put(partition, time.clone()));
    return made;
  }

  /** Returns the driver's times and resets the oldest ones: the next call has the oldest of later rows. */
  synchronized Map<String, long[]> take() {
    Map<String, long[]> taken = value();
    cells.values().forEach(cell -> cell[1] = NONE);
    return taken;
  }

  /** A running task's copy is not thread-safe, and its values do not count before the task ends. */
  @Override
  public boolean excludeFromHeartbeat() {
    return true;
  }
}
