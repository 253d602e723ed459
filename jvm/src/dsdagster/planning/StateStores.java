package dsdagster.planning;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;

/** Puts a {@link StateStep} above each step with state. */
final class StateStores extends Rule<SparkPlan> {
  @Override
  public SparkPlan apply(SparkPlan plan) {
    return PlanTree.withChildren(
        plan,
        child -> {
          SparkPlan other = apply(child);
          return other instanceof StatefulOperator && !(plan instanceof StateStep) ? new StateStep(other) : other;
        });
  }
}
