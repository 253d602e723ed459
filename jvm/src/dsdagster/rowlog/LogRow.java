package dsdagster.rowlog;

import dsdagster.Expressions;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A condition that is always false, so that the query leaves the row out, and that puts the row into a log of the job.
 *
 * <p>Rule: not deterministic, so that Spark neither moves nor repeats it.
 */
public final class LogRow implements Serializable {
  private static final long serialVersionUID = 1L;
  private final LoggedRows rows;

  private LogRow(LoggedRows rows) {
    this.rows = rows;
  }

  /** {@code row}: text of the log's record. */
  public static Column column(SparkSession spark, String job, String log, Column row) {
    LogRow target = new LogRow(RowLogs.rows(spark.sparkContext(), job, log));
    return Expressions.call(target, "log", DataTypes.BooleanType, false, row);
  }

  /** Called by generated code. */
  public boolean log(UTF8String row) {
    rows.add(row.getBytes());
    return false;
  }

  @Override
  public String toString() {
    return "log_row";
  }
}
