package dsdagster;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Conditions an operator evaluates inside of itself, compiled by Spark as it compiles a filter.
 *
 * <p>Rule: beside {@link Expressions} the only class that touches Spark's expression trees. Code is generated once per
 * task.
 */
public final class Conditions implements Serializable {
  private static final long serialVersionUID = 1L;

  private final List<Expression> expressions;
  private final Seq<Attribute> fields;
  private transient BasePredicate[] compiled;
  private transient JoinedRow joined;

  private Conditions(List<Expression> expressions, Seq<Attribute> fields) {
    this.expressions = expressions;
    this.fields = fields;
  }

  /** The columns of a projection, over the relation below it; null gives none. The projection never runs. */
  public static Conditions of(Dataset<Row> projection) {
    if (projection == null) {
      return null;
    }
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) projection).queryExecution().optimizedPlan();
    if (!(plan instanceof Project project)) {
      throw new OperatorFault("OPERATOR_SETTINGS", "conditions are no projection");
    }
    List<Expression> found = new ArrayList<>();
    for (NamedExpression one : CollectionConverters.asJava(project.projectList())) {
      found.add((Expression) one);
    }
    return new Conditions(found, project.child().output());
  }

  /** Whether a condition is true; null is not. The fields are those of both rows, one behind the other. */
  public boolean holds(int condition, InternalRow left, InternalRow right) {
    if (compiled == null) {
      compiled = new BasePredicate[expressions.size()];
      joined = new JoinedRow();
    }
    if (compiled[condition] == null) {
      compiled[condition] = Predicate$.MODULE$.create(expressions.get(condition), fields);
      compiled[condition].initialize(0);
    }
    return compiled[condition].eval(joined.apply(left, right));
  }
}
