package dsdagster.share;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Steps that stand in a plan several times and run once: of all exchanges with a column of one marked name the first
 * takes the place of the others. Spark then finds them equal and makes its rows once.
 *
 * <p>Rules: it runs after Spark has numbered the stateful steps, so those below the first exchange are the only ones that
 * ever open their state; the plan is the same in every batch, and so is which one is the first. What a marked exchange
 * gives does not depend on who reads it: other columns in one of them fail the batch.
 */
public final class SharedSteps extends Rule<SparkPlan> {
  static final String MARK = "__shared:";
  private static final Set<SparkSessionExtensions> KNOWN = Collections.newSetFromMap(new WeakHashMap<>());

  /** Sessions made of this one from now on share marked steps. */
  public static synchronized void enable(SparkSession session) {
    SparkSessionExtensions extensions = ((org.apache.spark.sql.classic.SparkSession) session).extensions();
    if (KNOWN.add(extensions)) {
      extensions.injectColumnar(any -> new Shares());
    }
  }

  /** What Spark asks for the rule; nothing here is columnar, but no other door leads behind the numbering. */
  private static final class Shares extends ColumnarRule {
    @Override
    public Rule<SparkPlan> preColumnarTransitions() {
      return new SharedSteps();
    }
  }

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
    List<SparkPlan> children = new ArrayList<>();
    boolean changed = false;
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      SparkPlan other = rewritten(child, made);
      changed |= other != child;
      children.add(other);
    }
    SparkPlan result = changed ? (SparkPlan) plan.withNewChildren(seq(children)) : plan;
    if (name != null) {
      made.put(name, result);
    }
    return result;
  }

  private static String mark(SparkPlan exchange) {
    for (Attribute attribute : CollectionConverters.asJava(exchange.output())) {
      if (attribute.name().startsWith(MARK)) {
        return attribute.name();
      }
    }
    return null;
  }

  /** The rows of {@code first} under the identities that the readers of {@code other} know. */
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
              given.get(i), to.name(), to.exprId(), to.qualifier(), scala.Option.apply(to.metadata()), seq(List.of())));
    }
    return new ProjectExec(seq(columns), first);
  }

  private static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items.iterator()).toSeq();
  }
}
