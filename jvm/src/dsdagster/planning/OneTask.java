package dsdagster.planning;

import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreReader;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.StreamingGlobalLimitExec;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads the rows of a small batch in the task that uses them: an exchange that has one partition is replaced by its
 * child, read partition by partition.
 *
 * <p>An exchange is a stage: tasks of its own, and files that one stage writes and the next one reads. The tasks of the
 * child no longer run side by side, which matters for large batches alone.
 *
 * <p>Rules: the reader of a replaced exchange reads all of its rows, as the exchange would: a stateful step below commits
 * its state when its last row was read. An exchange with several readers stays, see {@link SharedSteps}. An exchange
 * above a Spark aggregate with state stays: it opens its state twice, to read and to write, and Spark knows the store to
 * write by the task.
 */
final class OneTask {
  private OneTask() {}

  static SparkPlan of(SparkPlan plan) {
    return PlanTree.withChildren(
        plan,
        child -> {
          SparkPlan other = of(child);
          return other instanceof ShuffleExchangeExec exchange && readsAll(plan) && isReplaceable(exchange)
              ? new CoalesceExec(1, exchange.child())
              : other;
        });
  }

  private static boolean isReplaceable(ShuffleExchangeExec exchange) {
    return exchange.outputPartitioning().numPartitions() == 1
        && SharedSteps.mark(exchange) == null
        && !readsStore(exchange.child());
  }

  /** Whether a step of the stage that ends with this one opens its state to read it only. */
  private static boolean readsStore(SparkPlan plan) {
    if (plan instanceof StateStoreReader) {
      return true;
    }
    if (plan instanceof ShuffleExchangeExec) {
      return false;
    }
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      if (readsStore(child)) {
        return true;
      }
    }
    return false;
  }

  private static boolean readsAll(SparkPlan reader) {
    return reader instanceof SortExec
        || reader instanceof BaseAggregateExec
        || reader instanceof StateStoreReader
        || reader instanceof StateStoreWriter && !(reader instanceof StreamingGlobalLimitExec);
  }
}
