package dsdagster.planning;

import dsdagster.planning.keyed.KeyedSteps;
import dsdagster.planning.panes.PanesInState;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * Our rules over physical plans. They are not about columns, but no other extension point is after Spark has numbered
 * the stateful steps.
 */
public final class PlanningRules extends ColumnarRule {
  private static final Set<SparkSessionExtensions> KNOWN = Collections.newSetFromMap(new WeakHashMap<>());

  /** From now on sessions that are created from this one plan with these rules. */
  public static synchronized void enable(SparkSession session) {
    SparkSessionExtensions extensions = ((org.apache.spark.sql.classic.SparkSession) session).extensions();
    if (KNOWN.add(extensions)) {
      extensions.injectColumnar(any -> new OfOperators());
      extensions.injectColumnar(any -> new PlanningRules());
      extensions.injectColumnar(any -> new OfBatches());
      extensions.injectColumnar(any -> new OfSteps());
    }
  }

  @Override
  public Rule<SparkPlan> preColumnarTransitions() {
    return new SharedSteps();
  }

  @Override
  public Rule<SparkPlan> postColumnarTransitions() {
    return new DriverPlans();
  }

  /** What a step with state keeps: the first rules, since the others look for such steps and their exchanges. */
  private static final class OfOperators extends ColumnarRule {
    @Override
    public Rule<SparkPlan> preColumnarTransitions() {
      return new Rule<>() {
        @Override
        public SparkPlan apply(SparkPlan plan) {
          return new KeyedSteps().apply(new PanesInState().apply(plan));
        }
      };
    }
  }

  /** What is decided for each batch before its plan is compiled. */
  private static final class OfBatches extends ColumnarRule {
    @Override
    public Rule<SparkPlan> preColumnarTransitions() {
      return new SmallBatches();
    }
  }

  /** How a single step takes times, and where it keeps its state. */
  private static final class OfSteps extends ColumnarRule {
    @Override
    public Rule<SparkPlan> preColumnarTransitions() {
      return new UtcTimes();
    }

    @Override
    public Rule<SparkPlan> postColumnarTransitions() {
      return new StateStores();
    }
  }
}
