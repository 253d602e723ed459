package dsdagster.schedule;

import dsdagster.OperatorFault;
import dsdagster.PrivateField;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingAlgorithm;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/**
 * Fair scheduling between pools; among pools with equal shares the pool with the oldest Spark job is first.
 *
 * <p>Rule, of Spark 4.2: among pools with equal shares the first by name gets the next slot. With more busy queries
 * than slots most queries have no running task when a slot is free, so the last by name would wait until all others
 * are done.
 */
public final class OldestFirst implements SchedulingAlgorithm {
  private OldestFirst() {}

  /** Replaces the scheduling of a session with fair scheduling; does nothing for other sessions. */
  public static void install(SparkContext context) {
    if (!context.getConf().get("spark.scheduler.mode", "FIFO").equalsIgnoreCase("FAIR")
        || !(context.taskScheduler() instanceof TaskSchedulerImpl scheduler)) {
      return;
    }
    try {
      PrivateField.of(Pool.class, "taskSetSchedulingAlgorithm").set(scheduler.rootPool(), new OldestFirst());
    } catch (ReflectiveOperationException other) {
      throw new OperatorFault("INTERNAL", "scheduling pools of this version of Spark", other);
    }
  }

  /** Whether {@code left} gets a slot before {@code right}. */
  @Override
  public boolean comparator(Schedulable left, Schedulable right) {
    boolean isNeedy = left.runningTasks() < left.minShare();
    if (isNeedy != right.runningTasks() < right.minShare()) {
      return isNeedy;
    }
    int order = Double.compare(share(left, isNeedy), share(right, isNeedy));
    if (order == 0) {
      order = Integer.compare(oldestJob(left), oldestJob(right));
    }
    return order == 0 ? left.name().compareTo(right.name()) < 0 : order < 0;
  }

  private static double share(Schedulable pool, boolean isNeedy) {
    return pool.runningTasks() / (double) (isNeedy ? Math.max(1, pool.minShare()) : pool.weight());
  }

  /** Number of the Spark job whose stages have waited longest in a pool; Spark numbers jobs as they are submitted. */
  private static int oldestJob(Schedulable pool) {
    int oldest = Integer.MAX_VALUE;
    for (Schedulable stage : pool.schedulableQueue()) {
      oldest = Math.min(oldest, stage.priority());
    }
    return oldest;
  }
}
