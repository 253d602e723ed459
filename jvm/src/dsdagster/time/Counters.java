package dsdagster.time;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.util.LongAccumulator;

/** Counters that operators fill and a job's snapshot shows. */
public final class Counters {
  private Counters() {}

  /** The job's counter of that name; one that nobody reads when {@code job} is null. */
  public static LongAccumulator of(SparkSession spark, String job, String name) {
    SparkContext context = spark.sparkContext();
    return job == null ? context.longAccumulator(name) : Clocks.of(job).counter(context, name);
  }
}
