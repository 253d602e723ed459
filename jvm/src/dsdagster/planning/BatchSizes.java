package dsdagster.planning;

import java.lang.ref.WeakReference;
import java.util.OptionalLong;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The batches of one query: whether they are taken for small, and how many rows they had.
 *
 * <p>Rules: after a batch that was taken for small and had more rows in some step (a window that ends, a join that fans
 * out, a large table that is looked up), the next batches are compiled: one for each time that the limit is contained in
 * these rows. After any other batch with more rows, the next one is compiled: it may have one record, of the time that
 * passes, and the rows that have waited for it.
 */
final class BatchSizes {
  private static final String WHOLE_STAGE = "spark.sql.codegen.wholeStage";
  private static final String FACTORY_MODE = "spark.sql.codegen.factoryMode";
  private static final String ROWS = "numOutputRows";

  private final String wholeStage;
  private final String factoryMode;
  private WeakReference<IncrementalExecution> last = new WeakReference<>(null);
  private boolean hasBegun;
  private boolean isSmall;
  private long compiledBatches;

  /** {@code conf} has the settings of batches that are compiled. */
  BatchSizes(SQLConf conf) {
    wholeStage = conf.getConfString(WHOLE_STAGE);
    factoryMode = conf.getConfString(FACTORY_MODE);
  }

  /** Whether the batch that began last is taken for small. */
  boolean isSmall() {
    return isSmall;
  }

  /** Whether no batch has begun yet. */
  boolean isEmpty() {
    return !hasBegun;
  }

  boolean isNew(IncrementalExecution execution) {
    return last.get() != execution;
  }

  /** The rows of the step with most rows in the last batch; empty if there is none. */
  OptionalLong rowsOfTheLast(long most) {
    IncrementalExecution execution = last.get();
    if (execution == null) {
      return OptionalLong.empty();
    }
    long rows = rows(execution.executedPlan());
    if (rows > most) {
      compiledBatches = isSmall ? rows / most : Math.max(1, compiledBatches);
    }
    return OptionalLong.of(rows);
  }

  private static long rows(SparkPlan plan) {
    SQLMetric own = CollectionConverters.asJava(plan.metrics()).get(ROWS);
    long most = own == null ? 0 : (Long) own.value();
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      most = Math.max(most, rows(child));
    }
    return most;
  }

  /** A batch begins: sets what Spark does with the expressions of its plan and of what its sinks run. */
  void begin(IncrementalExecution execution, boolean hasFewRecords, SQLConf conf) {
    last = new WeakReference<>(execution);
    hasBegun = true;
    isSmall = hasFewRecords && compiledBatches == 0;
    compiledBatches = Math.max(0, compiledBatches - 1);
    conf.setConfString(WHOLE_STAGE, isSmall ? "false" : wholeStage);
    conf.setConfString(FACTORY_MODE, isSmall ? "NO_CODEGEN" : factoryMode);
  }
}
