package dsdagster.planning;

import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Walks over plans. */
public final class PlanTree {
  private PlanTree() {}

  /** A plan with other children; the plan itself if all of them are the same. */
  public static SparkPlan withChildren(SparkPlan plan, UnaryOperator<SparkPlan> other) {
    List<SparkPlan> children = new ArrayList<>();
    boolean changed = false;
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      SparkPlan made = other.apply(child);
      changed |= made != child;
      children.add(made);
    }
    return changed ? (SparkPlan) plan.withNewChildren(seq(children)) : plan;
  }

  /** The child of a plan with one, else null. */
  public static SparkPlan onlyChild(SparkPlan plan) {
    List<SparkPlan> children = CollectionConverters.asJava(plan.children());
    return children.size() == 1 ? children.get(0) : null;
  }

  /** The place of a column in the rows of a plan. */
  public static int indexOf(Attribute column, SparkPlan plan) {
    List<Attribute> output = CollectionConverters.asJava(plan.output());
    for (int index = 0; index < output.size(); index++) {
      if (output.get(index).exprId().equals(column.exprId())) {
        return index;
      }
    }
    throw new IllegalStateException("no " + column + " in the rows of " + plan.nodeName());
  }

  public static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items.iterator()).toSeq();
  }
}
