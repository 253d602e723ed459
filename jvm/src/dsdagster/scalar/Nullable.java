package dsdagster.scalar;

import dsdagster.Expressions;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;

/**
 * Values that are nullable for Spark in every batch: else its optimizer decides for each batch, by the predicates and by
 * which sources have rows.
 */
public final class Nullable implements Serializable {
  private static final long serialVersionUID = 1L;

  private Nullable() {}

  /** {@code value} (timestamp) unchanged. */
  public static Column time(Column value) {
    return Expressions.call(new Nullable(), "same", DataTypes.TimestampType, true, value);
  }

  /** Called by generated code. */
  public long same(long micros) {
    return micros;
  }

  @Override
  public String toString() {
    return "nullable";
  }
}
