package dsdagster;

import java.io.Serializable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;

/**
 * Conditions that an operator evaluates, compiled by Spark like the condition of a filter.
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

  /**
   * The columns of a projection as conditions over the relation below it; null: no conditions. The projection never
   * runs.
   */
  public static Conditions of(Dataset<Row> projection) {
    return projection == null ? null : new Conditions(Projections.of(projection));
  }

  /**
   * Whether a condition is true, not false or null. Its fields are those of the left row, then those of the right row.
   */
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
