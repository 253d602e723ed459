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
 * <p>Rules: not deterministic, so that Spark neither moves nor repeats it; every row passes. Spark serializes it for the
 * tasks of each batch after the batch's time is known; then it takes that time along, for executors of their own.
 */
public final class LateRow implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String job;
  private final LoggedRows rows;
  /** The job's time (microseconds) when this was serialized; where the job runs, the current time counts. */
  private final long sent;

  private transient AtomicLong time;

  private LateRow(String job, LoggedRows rows, long sent) {
    this.job = job;
    this.rows = rows;
    this.sent = sent;
  }

  private Object writeReplace() {
    AtomicLong now = RowLogs.knownTime(job);
    return now == null ? this : new LateRow(job, rows, now.get());
  }

  /** Whether a row of a window with this end (timestamp) may be late. */
  public static Column candidate(String job, Column end) {
    return Expressions.call(new LateRow(job, null, Long.MIN_VALUE), "mayBeLate", DataTypes.BooleanType, false, end);
  }

  /** A condition that is always true and records rows; {@code row}: the log's record without its lateness. */
  public static Column column(SparkSession spark, String job, String log, Column end, Column row) {
    LateRow target = new LateRow(job, RowLogs.rows(spark.sparkContext(), job, log), Long.MIN_VALUE);
    return Expressions.call(target, "keep", DataTypes.BooleanType, false, end, row);
  }

  /** Called by generated code. */
  public boolean mayBeLate(long endMicros) {
    if (time == null) {
      AtomicLong known = RowLogs.knownTime(job);
      time = known == null ? new AtomicLong(sent) : known;
    }
    return endMicros <= time.get();
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
