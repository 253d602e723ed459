package dsdagster.planning;

import dsdagster.PrivateField;
import dsdagster.state.keys.KnownKeysProvider;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.state.BaseStateStoreRDD;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;

/**
 * Lets the steps whose state is in RocksDB use {@link KnownKeysProvider}.
 *
 * <p>Why here: Spark's {@code transformWithState} compares the class that is set with the name of its own, and a checkpoint
 * keeps that name. So the name stays, and the tasks of a step get the other class.
 */
final class StateStores extends Rule<SparkPlan> {
  @Override
  public SparkPlan apply(SparkPlan plan) {
    return PlanTree.withChildren(
        plan,
        child -> {
          SparkPlan other = apply(child);
          return other instanceof StatefulOperator && !(plan instanceof KnownKeysStep) ? new KnownKeysStep(other) : other;
        });
  }

  /** A step with state. */
  private static final class KnownKeysStep extends DriverPlan {
    KnownKeysStep(SparkPlan child) {
      super(child);
    }

    @Override
    SparkPlan of(SparkPlan child) {
      return new KnownKeysStep(child);
    }

    @Override
    public RDD<InternalRow> doExecute() {
      RDD<InternalRow> rows = super.doExecute();
      if (rows instanceof BaseStateStoreRDD<?, ?> stored
          && stored.storeConf().providerClass().equals(RocksDBStateStoreProvider.class.getName())) {
        replace(stored.storeConf());
      }
      return rows;
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
}
