package dsdagster.planning;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Runs steps once that occur several times in a plan: the first of all exchanges with a column of the same marked name
 * replaces the others. Spark then finds them equal and computes the rows once.
 *
 * <p>Rules: it runs after Spark has numbered the stateful steps, so only those below the first exchange ever open
 * their state. The plan is the same in every batch, and so is its first exchange. The columns of a marked exchange do
 * not depend on its readers: different columns fail the batch.
 */
final class SharedSteps extends Rule<SparkPlan> {
  static final String MARK = "__shared:";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return rewritten(plan, new HashMap<>());
  }

  private static SparkPlan rewritten(SparkPlan plan, Map<String, SparkPlan> made) {
    String name = plan instanceof ShuffleExchangeExec ? mark(plan) : null;
    SparkPlan first = name == null ? null : made.get(name);
    if (first != null) {
      return as(first, plan);
    }
    SparkPlan result = PlanTree.withChildren(plan, child -> rewritten(child, made));
    if (name != null) {
      made.put(name, result);
    }
    return result;
  }

  /** The marked name of an exchange; null if it has one reader. */
  static String mark(SparkPlan exchange) {
    for (Attribute attribute : CollectionConverters.asJava(exchange.output())) {
      if (attribute.name().startsWith(MARK)) {
        return attribute.name();
      }
    }
    return null;
  }

  /** The rows of {@code first} with the attribute ids of {@code other}, which its readers use. */
  private static SparkPlan as(SparkPlan first, SparkPlan other) {
    List<Attribute> given = CollectionConverters.asJava(first.output());
    List<Attribute> wanted = CollectionConverters.asJava(other.output());
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < wanted.size(); i++) {
      Attribute to = wanted.get(i);
      if (given.size() != wanted.size() || !given.get(i).dataType().equals(to.dataType())) {
        throw new IllegalStateException("a shared step differs where it is read: " + given + " and " + wanted);
      }
      columns.add(
          new Alias(
              given.get(i),
              to.name(),
              to.exprId(),
              to.qualifier(),
              scala.Option.apply(to.metadata()),
              PlanTree.seq(List.of())));
    }
    return new ProjectExec(PlanTree.seq(columns), first);
  }
}
