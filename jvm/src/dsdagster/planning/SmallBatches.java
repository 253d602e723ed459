package dsdagster.planning;

import dsdagster.time.Positions;
import java.util.Map;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.DataSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution$;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Interprets the expressions of small batches; those of larger batches are compiled.
 *
 * <p>Spark writes the text of Java classes in every batch, to find the classes in its cache. Below a thousand rows
 * that costs more than interpreting the expressions does.
 *
 * <p>Rules: a batch is small if its sources have at most {@link #SETTING} records for it. Where the offsets of a source
 * do not tell their number, it is that of the rows of the batch before. The first batch of a query is then compiled; the
 * first one after a restart is small, since jobs that start together, with a cold compiler, wait for it. See {@link
 * BatchSizes} for small batches that turn out to be large.
 */
final class SmallBatches extends Rule<SparkPlan> {
  /** Property of a session: records up to which a batch is small; 0 compiles every batch. */
  private static final String SETTING = "spark.dsdagster.interpretedRecords";

  private static final String DEFAULT = "500";
  private static final Map<StreamExecution, BatchSizes> SIZES = new WeakHashMap<>();

  @Override
  public SparkPlan apply(SparkPlan plan) {
    SQLConf conf = plan.session().sessionState().conf();
    long most = Long.parseLong(conf.getConfString(SETTING, DEFAULT));
    StreamExecution query = most > 0 ? query(plan.session()) : null;
    IncrementalExecution execution = query == null ? null : query.lastExecution();
    if (execution != null) {
      BatchSizes sizes = sizes(query, conf);
      if (sizes.isNew(execution)) {
        boolean isRestart = sizes.isEmpty() && execution.currentBatchId() > 0;
        OptionalLong before = isRestart ? OptionalLong.of(0) : sizes.rowsOfTheLast(most);
        OptionalLong records = records(plan, before);
        sizes.begin(execution, records.isPresent() && records.getAsLong() <= most, conf);
      }
      return sizes.isSmall() ? OneTask.of(plan) : PaneGroups.of(plan);
    }
    return PaneGroups.of(plan);
  }

  private static StreamExecution query(SparkSession session) {
    String id = session.sparkContext().getLocalProperty(StreamExecution$.MODULE$.QUERY_ID_KEY());
    return id == null ? null : session.sharedState().activeStreamingQueries().get(UUID.fromString(id));
  }

  private static BatchSizes sizes(StreamExecution query, SQLConf conf) {
    synchronized (SIZES) {
      return SIZES.computeIfAbsent(query, any -> new BatchSizes(conf));
    }
  }

  /** Records of all sources of a batch, {@code before} for those that do not tell; empty if it is not known. */
  private static OptionalLong records(SparkPlan plan, OptionalLong before) {
    if (plan instanceof MicroBatchScanExec scan) {
      OptionalLong records = Positions.records(scan.start(), scan.end());
      return records.isPresent() ? records : before;
    }
    if (plan instanceof DataSourceScanExec) {
      return before;
    }
    if (plan instanceof RealTimeStreamScanExec) {
      return OptionalLong.empty();
    }
    long sum = 0;
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      OptionalLong records = records(child, before);
      if (records.isEmpty()) {
        return records;
      }
      sum += records.getAsLong();
    }
    return OptionalLong.of(sum);
  }
}
