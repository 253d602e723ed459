package dsdagster.time;

import dsdagster.OperatorFault;
import java.util.UUID;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution$;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;

/**
 * The watermark of the batch that a query is planning.
 *
 * <p>Rules, of Spark 4.2 and not public: a query first asks its sources for offsets and then writes its watermark into
 * the offset log, on one thread; a replayed batch uses the logged watermark. So a tick that raises the watermark while
 * Spark asks for offsets is the watermark of its own batch, also in a replay. After a look without data Spark would
 * check whether the logged watermark needs another batch, and fail if it moves afterwards: {@code noDataMicroBatches}
 * has to be off.
 */
final class BatchWatermark {
  private BatchWatermark() {}

  /** Raises the watermark of the query that runs on this thread; never lowers it. */
  static void raise(String job, long millis) {
    WatermarkTracker tracker = tracker(job);
    if (millis > tracker.currentWatermark()) {
      tracker.setWatermark(millis);
    }
  }

  private static WatermarkTracker tracker(String job) {
    SparkSession session = (SparkSession) SparkSession.active();
    String id = session.sparkContext().getLocalProperty(StreamExecution$.MODULE$.QUERY_ID_KEY());
    StreamExecution query =
        id == null ? null : session.sharedState().activeStreamingQueries().get(UUID.fromString(id));
    if (query instanceof MicroBatchExecution batches) {
      return batches.watermarkTracker();
    }
    throw new OperatorFault("INTERNAL", "job " + job + " asks for ticks outside of a query that runs in batches");
  }
}
