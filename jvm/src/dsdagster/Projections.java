package dsdagster;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The columns of a projection over a relation, after Spark's optimizer: often one projection, but a value that is used
 * twice ({@code NULLIF}) becomes a column of a second projection below.
 *
 * <p>Rule: only this class takes expressions out of a plan. A plan with other nodes than projections and a relation is
 * refused.
 */
public final class Projections implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Expressions of one projection, and the fields that they read. */
  private record Step(List<Expression> expressions, List<Attribute> fields) implements Serializable {
    Seq<Expression> sequence() {
      return CollectionConverters.asScala(expressions.iterator()).toSeq();
    }

    Seq<Attribute> input() {
      return CollectionConverters.asScala(fields.iterator()).toSeq();
    }
  }

  /** Expressions of Spark that keep a partly built map when they fail, and would use it for the next row. */
  private static final Set<String> BUILDERS =
      Set.of("CreateMap", "MapFromArrays", "MapFromEntries", "MapConcat", "TransformKeys", "StringToMap");

  private final List<Step> below;
  private final Step top;
  private transient List<UnsafeProjection> compiled;

  private Projections(List<Step> below, Step top) {
    this.below = below;
    this.top = top;
  }

  /** The columns of a projection, which never runs. */
  public static Projections of(Dataset<Row> projection) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) projection).queryExecution().optimizedPlan();
    List<Step> steps = new ArrayList<>();
    while (plan instanceof Project project) {
      List<Expression> expressions = new ArrayList<>();
      for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
        expressions.add((Expression) column);
      }
      steps.add(0, new Step(expressions, new ArrayList<>(CollectionConverters.asJava(project.child().output()))));
      plan = project.child();
    }
    if (steps.isEmpty() || !(plan instanceof LeafNode)) {
      throw new OperatorFault("OPERATOR_SETTINGS", "expressions need the step " + plan.nodeName());
    }
    Step top = steps.remove(steps.size() - 1);
    return new Projections(steps, top);
  }

  /** Whether a row that fails leaves state in an expression: these have to be compiled again, from a copy. */
  public boolean keepsFailures() {
    List<Step> all = new ArrayList<>(below);
    all.add(top);
    return all.stream().anyMatch(step -> step.expressions().stream().anyMatch(Projections::buildsMaps));
  }

  private static boolean buildsMaps(Expression expression) {
    return BUILDERS.contains(expression.getClass().getSimpleName())
        || CollectionConverters.asJava(expression.children()).stream().anyMatch(Projections::buildsMaps);
  }

  /** The expressions, over {@link #fields}. */
  public List<Expression> expressions() {
    return top.expressions();
  }

  /** Fields of the rows that the expressions read, see {@link #input}. */
  public Seq<Attribute> fields() {
    return top.input();
  }

  /** Computes the expressions from a row of {@link #input}; for one task. */
  public UnsafeProjection compiled(int partition) {
    return compiled(top, partition);
  }

  /** Turns a row of the relation into a row that the expressions read. The next call reuses it. */
  public InternalRow input(InternalRow row, int partition) {
    if (compiled == null) {
      List<UnsafeProjection> projections = new ArrayList<>(below.size());
      for (Step step : below) {
        projections.add(compiled(step, partition));
      }
      compiled = projections;
    }
    InternalRow input = row;
    for (UnsafeProjection projection : compiled) {
      input = projection.apply(input);
    }
    return input;
  }

  private static UnsafeProjection compiled(Step step, int partition) {
    UnsafeProjection projection = UnsafeProjection$.MODULE$.create(step.sequence(), step.input());
    projection.initialize(partition);
    return projection;
  }
}
