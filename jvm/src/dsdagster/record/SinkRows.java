package dsdagster.record;

import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of an application's batch, computed once and kept until every sink has its rows. The first column is the
 * number n of a sink, column n + 1 the row for that sink.
 *
 * <p>The rows of the batch's own plan are distributed to the sinks: a query over the batch for each sink, or over a
 * cached batch, would be analysed, planned and compiled again for each batch.
 */
public final class SinkRows {
  private static final int NUMBER = 0;

  private final Dataset<Row> batch;
  private final JavaRDD<InternalRow> rows;

  private SinkRows(Dataset<Row> batch) {
    this.batch = batch;
    // a plan reuses its row
    JavaRDD<InternalRow> computed = BatchParts.rows(batch).toJavaRDD().map(InternalRow::copy);
    boolean isLocal = batch.sparkSession().sparkContext().isLocal();
    this.rows = isLocal ? kept(computed) : held(computed);
  }

  /**
   * The rows kept in this process, without a reference to their plan after the first job: Spark serializes everything
   * that a job's rows depend on, otherwise the batch's whole plan.
   */
  private static JavaRDD<InternalRow> kept(JavaRDD<InternalRow> computed) {
    computed.rdd().localCheckpoint();
    return computed;
  }

  /**
   * The rows in the driver's memory. Rows kept in an executor are lost with it: they would be computed again between
   * two sinks, on state that has the batch already.
   */
  private static JavaRDD<InternalRow> held(JavaRDD<InternalRow> computed) {
    List<List<InternalRow>> partitions = computed.glom().collect();
    JavaSparkContext context = JavaSparkContext.fromSparkContext(computed.context());
    return context.parallelize(partitions, partitions.size()).flatMap(List::iterator);
  }

  /** Rows of a batch. On a cluster they are computed here, otherwise when the first sink's rows are used. */
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

  /** Releases the kept rows. */
  public void release() {
    rows.unpersist(false);
  }
}
