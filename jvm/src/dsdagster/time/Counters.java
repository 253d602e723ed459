package dsdagster.time;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.util.LongAccumulator;

/** Counters that operators fill and a job's snapshot shows. */
public final class Counters {
  private Counters() {}

  /** The job's counter of that name; if {@code job} is null, a counter that is not shown. */
  public static LongAccumulator of(SparkSession spark, String job, String name) {
    SparkContext context = spark.sparkContext();
    return job == null ? context.longAccumulator(name) : Clocks.of(job).counter(context, name);
  }
}
