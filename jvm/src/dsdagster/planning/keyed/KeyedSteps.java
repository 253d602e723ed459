package dsdagster.planning.keyed;

import dsdagster.KeyPlace;
import dsdagster.delta.Fold;
import dsdagster.planning.PlanTree;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SerializeFromObjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec;

/**
 * Leaves out what a step with keys does not need: the exchange of rows whose keys are where a step below has put them
 * ({@link KeyPlace}), their order if a fold reads them, and the store of a fold, which keeps nothing.
 *
 * <p>Rule, of Spark 4.2: a step with state has the key that it works on in its thread. A step that reads the rows of
 * another one must have all of them before it begins, so the order of rows for a step with state stays.
 *
 * <p>A fold whose checkpoint has a store for it goes on with it: versions of this package before this rule opened one, and
 * a copy of a checkpoint needs a version of each of its stores.
 */
public final class KeyedSteps extends Rule<SparkPlan> {
  /** Run of a query and number of a step → whether the checkpoint had a store for the step when the run began. */
  private static final ConcurrentMap<Step, Boolean> STORES = new ConcurrentHashMap<>();

  private record Step(UUID run, long number) {}

  @Override
  public SparkPlan apply(SparkPlan plan) {
    SparkPlan result = PlanTree.withChildren(plan, this::apply);
    if (result instanceof SerializeFromObjectExec rows
        && rows.child() instanceof TransformWithStateExec fold
        && (Object) fold.statefulProcessor() instanceof Fold.Processor processor
        && isInBatches(fold)
        && !hasStore(fold)) {
      return new FoldStep(below(fold, processor.place()), fold.dataAttributes(), rows.output());
    }
    if (result instanceof TransformWithStateExec step
        && (Object) step.statefulProcessor() instanceof KeyPlace.Known processor
        && processor.place() == KeyPlace.IN_PARTITION
        && isInBatches(step)) {
      SparkPlan given = step.child();
      return PlanTree.withChildren(step, child -> child == given ? below(step, processor.place()) : child);
    }
    return result;
  }

  /** In real-time mode rows are neither sorted nor do they end. */
  private static boolean isInBatches(TransformWithStateExec step) {
    return step.isStreaming() && step.child() instanceof SortExec;
  }

  /** The rows of a step, exchanged and sorted as far as that is needed. */
  private static SparkPlan below(TransformWithStateExec step, KeyPlace place) {
    SparkPlan sort = step.child();
    if (place == KeyPlace.ANYWHERE
        || !(PlanTree.onlyChild(sort) instanceof ShuffleExchangeExec exchange) || !isMadeBySteps(exchange, step)) {
      return sort;
    }
    return place == KeyPlace.ADJACENT ? exchange.child() : PlanTree.withChildren(sort, any -> exchange.child());
  }

  /** Whether rows are from a step with as many partitions, and changed one by one since. */
  private static boolean isMadeBySteps(ShuffleExchangeExec exchange, TransformWithStateExec step) {
    SparkPlan rows = exchange.child();
    while (rows != null && !(rows instanceof TransformWithStateExec) && !(rows instanceof ShuffleExchangeExec)) {
      rows = PlanTree.onlyChild(rows);
    }
    return rows instanceof TransformWithStateExec maker
        && maker.getStateInfo().numPartitions() == step.getStateInfo().numPartitions();
  }

  private static boolean hasStore(TransformWithStateExec fold) {
    StatefulOperatorStateInfo state = fold.getStateInfo();
    Path store = new Path(new Path(state.checkpointLocation(), Long.toString(state.operatorId())), "0");
    return STORES.computeIfAbsent(
        new Step(state.queryRunId(), state.operatorId()),
        any -> hasFiles(store, fold.session().sessionState().newHadoopConf()));
  }

  /** Whether a store was ever written; Spark makes its folder and one for its schema before. */
  private static boolean hasFiles(Path store, Configuration hadoop) {
    try {
      for (FileStatus entry : store.getFileSystem(hadoop).listStatus(store)) {
        if (entry.isFile()) {
          return true;
        }
      }
      return false;
    } catch (FileNotFoundException fresh) {
      return false;
    } catch (IOException failure) {
      throw new UncheckedIOException("the state of " + store + " cannot be listed", failure);
    }
  }
}
