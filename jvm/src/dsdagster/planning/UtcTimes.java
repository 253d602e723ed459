package dsdagster.planning;

import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.runtime.AbstractPartialFunction;

/**
 * Takes a time without a zone for one in UTC as it is: both are microseconds since 1970.
 *
 * <p>Spark's cast makes a date and a time of day of each value, in every zone: a tenth of the time of a query that reads
 * event time and counts.
 */
final class UtcTimes extends Rule<SparkPlan> {
  private static final DataType LOCAL = DataTypes.TimestampNTZType;
  private static final DataType INSTANT = DataTypes.TimestampType;

  @Override
  public SparkPlan apply(SparkPlan plan) {
    return (SparkPlan) plan.transformAllExpressions(new Replacement());
  }

  private static final class Replacement extends AbstractPartialFunction<Expression, Expression> {
    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof Cast cast
          && (isFromTo(cast, LOCAL, INSTANT) || isFromTo(cast, INSTANT, LOCAL))
          && cast.timeZoneId().contains("UTC");
    }

    @Override
    public Expression apply(Expression expression) {
      Cast cast = (Cast) expression;
      return new PreciseTimestampConversion(cast.child(), cast.child().dataType(), cast.dataType());
    }

    private static boolean isFromTo(Cast cast, DataType from, DataType to) {
      return cast.child().dataType().equals(from) && cast.dataType().equals(to);
    }
  }
}
