package dsdagster;

import java.io.Serializable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;

/**
 * Conditions an operator evaluates inside of itself, compiled by Spark as it compiles a filter.
 *
 * <p>Code is generated once per task.
 */
public final class Conditions implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Projections columns;
  private transient BasePredicate[] compiled;
  private transient JoinedRow joined;

  private Conditions(Projections columns) {
    this.columns = columns;
  }

  /** The columns of a projection, over the relation below it; null gives none. The projection never runs. */
  public static Conditions of(Dataset<Row> projection) {
    return projection == null ? null : new Conditions(Projections.of(projection));
  }

  /** Whether a condition is true; null is not. The fields are those of both rows, one behind the other. */
  public boolean holds(int condition, InternalRow left, InternalRow right) {
    if (compiled == null) {
      compiled = new BasePredicate[columns.expressions().size()];
      joined = new JoinedRow();
    }
    if (compiled[condition] == null) {
      compiled[condition] = Predicate$.MODULE$.create(columns.expressions().get(condition), columns.fields());
      compiled[condition].initialize(0);
    }
    return compiled[condition].eval(columns.input(joined.apply(left, right), 0));
  }
}
