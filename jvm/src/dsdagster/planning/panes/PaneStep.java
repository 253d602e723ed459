package dsdagster.planning.panes;

import dsdagster.planning.PlanTree;
import dsdagster.planning.StateStep;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreSaveExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStoreRDD;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Keeps the groups of panes, and gives those of each window that ends: for each pane of it a row with the window's end in
 * the pane's column. The step above merges these rows.
 *
 * <p>Spark's own step, its child, would keep a group for each window: a row has as many windows as there are steps in one,
 * and so many groups to read and to write. It still says what is kept, counts it, and tells the time; it does not run.
 */
public final class PaneStep extends StateStep {
  private static final ClassTag<InternalRow> ROW = ClassTag$.MODULE$.apply(InternalRow.class);
  private final transient StateStoreSaveExec save;

  PaneStep(StateStoreSaveExec save) {
    super(save);
    this.save = save;
  }

  @Override
  protected PaneStep of(SparkPlan child) {
    return new PaneStep((StateStoreSaveExec) child);
  }

  @Override
  protected RDD<InternalRow> rows() {
    save.metrics(); // on the driver, or each task would have its own
    Attribute pane = PaneWindows.column(save.keyExpressions());
    StatefulOperatorStateInfo state = save.getStateInfo();
    SessionState session = session().sessionState();
    StructType group = DataTypeUtils.fromAttributes(save.keyExpressions());
    return new StateStoreRDD<>(
        save.child().execute(),
        new PaneTask(save, PaneWindows.of(pane), PlanTree.indexOf(pane, save)),
        state.checkpointLocation(),
        state.queryRunId(),
        state.operatorId(),
        state.storeVersion(),
        state.stateStoreCkptIds(),
        state.stateSchemaMetadata(),
        group,
        save.stateManager().getStateValueSchema(),
        new NoPrefixKeyStateEncoderSpec(group),
        session,
        Option.apply(session.streamingQueryManager().stateStoreCoordinator()),
        false,
        Map$.MODULE$.empty(),
        false,
        ROW,
        ROW);
  }
}
