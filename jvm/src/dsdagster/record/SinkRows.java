package dsdagster.record;

import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of an application's batch, computed once and kept until every sink has its own: the first column is the number
 * of a sink, the column after as many others the row for it.
 *
 * <p>A query over the batch for each sink would be analysed, planned and compiled anew each time, and so would the kept
 * columns of a cached one; the batch's own plan stands already, and its rows are divided as they come.
 */
public final class SinkRows {
  private static final int NUMBER = 0;

  private final Dataset<Row> batch;
  private final JavaRDD<InternalRow> rows;

  private SinkRows(Dataset<Row> batch) {
    this.batch = batch;
    // a plan hands out one row again and again
    JavaRDD<InternalRow> computed = BatchParts.rows(batch).toJavaRDD().map(InternalRow::copy);
    boolean isLocal = batch.sparkSession().sparkContext().isLocal();
    this.rows = isLocal ? kept(computed) : held(computed);
  }

  /**
   * The same rows in this process, from the first job on without what they were computed from: each job takes along all
   * that its rows depend on, the batch's whole plan otherwise.
   */
  private static JavaRDD<InternalRow> kept(JavaRDD<InternalRow> computed) {
    computed.rdd().localCheckpoint();
    return computed;
  }

  /**
   * The same rows from the driver's memory. What an executor keeps is lost with it: the rows would be computed again, on
   * state that has the batch already, between two sinks.
   */
  private static JavaRDD<InternalRow> held(JavaRDD<InternalRow> computed) {
    List<List<InternalRow>> partitions = computed.glom().collect();
    JavaSparkContext context = JavaSparkContext.fromSparkContext(computed.context());
    return context.parallelize(partitions, partitions.size()).flatMap(List::iterator);
  }

  /** Nothing is computed before the first sink's rows are used, but on a cluster, where it is done here. */
  public static SinkRows of(Dataset<Row> batch) {
    return new SinkRows(batch);
  }

  /** The rows of a sink. */
  public Dataset<Row> sink(int number) {
    int place = NUMBER + 1 + number;
    StructType type = (StructType) batch.schema().apply(place).dataType();
    return batch.sparkSession().internalCreateDataFrame(own(rows, number, place, type.length()).rdd(), type, false);
  }

  private static JavaRDD<InternalRow> own(JavaRDD<InternalRow> rows, int number, int place, int width) {
    return rows.filter(row -> row.getInt(NUMBER) == number).map(row -> row.getStruct(place, width));
  }

  /** Keep the rows no longer. */
  public void release() {
    rows.unpersist(false);
  }
}
