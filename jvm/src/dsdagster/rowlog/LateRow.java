package dsdagster.rowlog;

import dsdagster.Expressions;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Records rows whose window may be closed: its end is at or before the newest time that the job has reported. The
 * driver then keeps the rows that Spark has dropped, see {@link RowLogs}.
 *
 * <p>Rules: not deterministic, so that Spark neither moves nor repeats it; every row passes. Tasks and driver share
 * one JVM.
 */
public final class LateRow implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String job;
  private final LoggedRows rows;
  private transient AtomicLong bound;

  private LateRow(String job, LoggedRows rows) {
    this.job = job;
    this.rows = rows;
  }

  /** Whether a row of a window with this end (timestamp) may be late. */
  public static Column candidate(String job, Column end) {
    return Expressions.call(new LateRow(job, null), "mayBeLate", DataTypes.BooleanType, false, end);
  }

  /** A condition that is always true and records rows; {@code row}: the log's record without its lateness. */
  public static Column column(SparkSession spark, String job, String log, Column end, Column row) {
    LateRow target = new LateRow(job, RowLogs.rows(spark.sparkContext(), job, log));
    return Expressions.call(target, "keep", DataTypes.BooleanType, false, end, row);
  }

  /** Called by generated code. */
  public boolean mayBeLate(long endMicros) {
    if (bound == null) {
      bound = RowLogs.time(job);
    }
    return endMicros <= bound.get();
  }

  /** Called by generated code. */
  public boolean keep(long endMicros, UTF8String row) {
    byte[] text = row.getBytes();
    rows.add(ByteBuffer.allocate(Long.BYTES + text.length).putLong(endMicros).put(text).array());
    return true;
  }

  @Override
  public String toString() {
    return "late_row";
  }
}
