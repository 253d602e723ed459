package dsdagster.planning.panes;

import dsdagster.planning.DriverPlan;
import dsdagster.planning.PlanTree;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreSaveExec;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Aggregates whose groups have a column with {@link PaneWindows}: {@link PaneStep} keeps them, and all panes of a group are
 * in one partition.
 *
 * <p>Rule: results depend on it, so it is one of the rules of every session that runs queries.
 */
public final class PanesInState extends Rule<SparkPlan> {
  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (plan instanceof PaneStep) {
      return plan;
    }
    SparkPlan result = PlanTree.withChildren(plan, this::apply);
    if (!(result instanceof StateStoreSaveExec save)) {
      return result;
    }
    Attribute pane = PaneWindows.column(save.keyExpressions());
    return pane == null ? save : new PaneStep(over(save, exchanged(save.child(), pane, save)));
  }

  /** A step whose tasks do not get the plan below it. */
  private static StateStoreSaveExec over(StateStoreSaveExec save, SparkPlan rows) {
    return save.withNewChildInternal(new DriverPlan(rows));
  }

  /** The rows below a step with state, exchanged by the other columns of their group. */
  private static SparkPlan exchanged(SparkPlan plan, Attribute pane, StateStoreSaveExec save) {
    if (plan instanceof ShuffleExchangeExec exchange) {
      return exchange.outputPartitioning() instanceof HashPartitioning hash
          ? exchange.copy(without(pane, hash), exchange.child(), exchange.shuffleOrigin(), exchange.advisoryPartitionSize())
          : exchange;
    }
    if (PlanTree.onlyChild(plan) == null) {
      if (save.getStateInfo().numPartitions() == 1) {
        return plan;
      }
      throw new IllegalStateException("no exchange below " + save.verboseStringWithOperatorId());
    }
    return PlanTree.withChildren(plan, child -> exchanged(child, pane, save));
  }

  private static HashPartitioning without(Attribute pane, HashPartitioning hash) {
    List<Expression> others = new ArrayList<>();
    for (Expression part : CollectionConverters.asJava(hash.expressions())) {
      if (!(part instanceof Attribute column && column.exprId().equals(pane.exprId()))) {
        others.add(part);
      }
    }
    if (others.isEmpty()) {
      others.add(Literal.create(0, DataTypes.IntegerType));
    }
    return new HashPartitioning(PlanTree.seq(others), hash.numPartitions());
  }
}
