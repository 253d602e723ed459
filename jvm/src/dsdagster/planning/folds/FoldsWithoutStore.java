package dsdagster.planning.folds;

import dsdagster.delta.Fold;
import dsdagster.planning.PlanTree;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SerializeFromObjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec;

/**
 * Puts a {@link FoldStep} in place of each fold, unless its checkpoint has a store for it: versions of this package before
 * this rule opened one, and a copy of a checkpoint needs a version of each of its stores.
 */
public final class FoldsWithoutStore extends Rule<SparkPlan> {
  /** Run of a query and number of a step → whether the checkpoint had a store for the step when the run began. */
  private static final ConcurrentMap<Step, Boolean> STORES = new ConcurrentHashMap<>();

  private record Step(UUID run, long number) {}

  @Override
  public SparkPlan apply(SparkPlan plan) {
    SparkPlan result = PlanTree.withChildren(plan, this::apply);
    return result instanceof SerializeFromObjectExec rows
            && rows.child() instanceof TransformWithStateExec fold
            && (Object) fold.statefulProcessor() instanceof Fold.Processor processor
            && fold.isStreaming()
            && fold.child() instanceof SortExec sort // not in real-time mode
            && !hasStore(fold)
        ? new FoldStep(sorted(sort, processor.place()), fold.dataAttributes(), rows.output())
        : result;
  }

  /** The rows of each key one behind the other, without an exchange if they are in one task. */
  private static SparkPlan sorted(SortExec sort, Fold.Place place) {
    if (place == Fold.Place.ANYWHERE || !(sort.child() instanceof ShuffleExchangeExec exchange)) {
      return sort;
    }
    return place == Fold.Place.ADJACENT ? exchange.child() : PlanTree.withChildren(sort, any -> exchange.child());
  }

  private static boolean hasStore(TransformWithStateExec fold) {
    StatefulOperatorStateInfo state = fold.getStateInfo();
    return STORES.computeIfAbsent(
        new Step(state.queryRunId(), state.operatorId()),
        any -> {
          Path store = new Path(new Path(state.checkpointLocation(), Long.toString(state.operatorId())), "0");
          try {
            return store.getFileSystem(fold.session().sessionState().newHadoopConf()).exists(store);
          } catch (IOException failure) {
            throw new UncheckedIOException("the state of " + store + " cannot be listed", failure);
          }
        });
  }
}
