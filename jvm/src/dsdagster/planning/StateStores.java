package dsdagster.planning;

import dsdagster.PrivateField;
import dsdagster.state.keys.KnownKeysProvider;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.state.BaseStateStoreRDD;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Lets the steps whose state is in RocksDB use {@link KnownKeysProvider}.
 *
 * <p>Why here: Spark's {@code transformWithState} compares the class that is set with the name of its own, and a checkpoint
 * keeps that name. So the name stays, and the tasks of a step get the other class.
 */
final class StateStores extends Rule<SparkPlan> {
  private static final String CLASS = "spark.sql.streaming.stateStore.providerClass";

  @Override
  public SparkPlan apply(SparkPlan plan) {
    List<SparkPlan> children = new ArrayList<>();
    boolean changed = false;
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) {
      SparkPlan other = apply(child);
      other = other instanceof StatefulOperator && !(plan instanceof KnownKeysStep) ? new KnownKeysStep(other) : other;
      changed |= other != child;
      children.add(other);
    }
    return changed ? (SparkPlan) plan.withNewChildren(SharedSteps.seq(children)) : plan;
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
        replace(stored, session().sessionState().conf().clone());
      }
      return rows;
    }

    /** Spark with other private fields keeps its own class, which is correct and slower. */
    private static void replace(BaseStateStoreRDD<?, ?> rows, SQLConf conf) {
      conf.setConfString(CLASS, KnownKeysProvider.class.getName());
      try {
        PrivateField.of(BaseStateStoreRDD.class, "storeConf")
            .set(rows, new StateStoreConf(conf, rows.storeConf().extraOptions()));
      } catch (NoSuchFieldException otherSpark) {
        return;
      } catch (IllegalAccessException problem) {
        throw new IllegalStateException(problem); // it is accessible
      }
    }
  }
}
