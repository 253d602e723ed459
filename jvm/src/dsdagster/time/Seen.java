package dsdagster.time;

import dsdagster.Expressions;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Returns the event time of an input's rows unchanged and records the newest and the oldest time of each partition.
 *
 * <p>Rules: not deterministic, so no predicate moves below it and it runs once a row. For a row without an event time
 * or a partition it returns null and records nothing. One instance per task.
 */
public final class Seen implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int NO_PARTITION = Integer.MIN_VALUE;
  private final SeenTimes times;
  private final String label;
  private transient UTF8String name;
  private transient int number;
  private transient long[] cell;

  Seen(SeenTimes times, String label) {
    this.times = times;
    this.label = label;
  }

  /** {@code time} (timestamp) as a column that reports to the clock; {@code partition} is an int or a string. */
  public static Column column(SparkSession spark, String job, String input, Column time, Column partition) {
    SeenTimes times = Clocks.of(job).input(input).seenTimes(spark.sparkContext());
    Seen target = new Seen(times, "seen(" + job + ", " + input + ")");
    return Expressions.call(target, "seen", DataTypes.TimestampType, false, time, partition);
  }

  /** Called by generated code for partitions that are numbers. */
  public long seen(long micros, int partition) {
    if (cell == null || partition != number) {
      cell = times.cell(Integer.toString(partition));
      number = partition;
      name = null;
    }
    SeenTimes.widen(cell, micros, micros);
    return micros;
  }

  /** Called by generated code for partitions that are names. */
  public long seen(long micros, UTF8String partition) {
    if (name == null || !name.equals(partition)) {
      cell = times.cell(partition.toString());
      name = partition.clone();
      number = NO_PARTITION;
    }
    SeenTimes.widen(cell, micros, micros);
    return micros;
  }

  @Override
  public String toString() {
    return label;
  }
}
