package dsdagster.planning;

import dsdagster.PrivateField;
import dsdagster.state.keys.KnownKeysProvider;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.state.BaseStateStoreRDD;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;

/**
 * A step with state, its child; its state in RocksDB is in a {@link KnownKeysProvider}.
 *
 * <p>Why here: Spark's {@code transformWithState} compares the class that is set with the name of its own, and a checkpoint
 * keeps that name. So the name stays, and the tasks of a step get the other class.
 */
public class StateStep extends DriverPlan {
  public StateStep(SparkPlan child) {
    super(child);
  }

  @Override
  protected StateStep of(SparkPlan child) {
    return new StateStep(child);
  }

  @Override
  public final RDD<InternalRow> doExecute() {
    RDD<InternalRow> rows = rows();
    if (rows instanceof BaseStateStoreRDD<?, ?> stored
        && stored.storeConf().providerClass().equals(RocksDBStateStoreProvider.class.getName())) {
      replace(stored.storeConf());
    }
    return rows;
  }

  /** The rows that the step gives. */
  protected RDD<InternalRow> rows() {
    return super.doExecute();
  }

  /** The settings are those of these rows alone. Spark with other private fields keeps its own class: correct, slower. */
  private static void replace(StateStoreConf conf) {
    try {
      PrivateField.of(StateStoreConf.class, "providerClass").set(conf, KnownKeysProvider.class.getName());
    } catch (NoSuchFieldException otherSpark) {
      return;
    } catch (IllegalAccessException problem) {
      throw new IllegalStateException(problem); // it is accessible
    }
  }
}
