package dsdagster.checkpoint;

import dsdagster.OperatorFault;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreSaveExec;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution$;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator$;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What the only aggregate of a streaming query keeps for a group, and its values before the first row. */
final class GroupBuffers {
  private final StructType keys;
  private final StructType values;
  private final List<Literal> initial;

  private GroupBuffers(StructType keys, StructType values, List<Literal> initial) {
    this.keys = keys;
    this.values = values;
    this.initial = initial;
  }

  /** Plans a query as its first batch would be planned; nothing runs. */
  static GroupBuffers of(SparkSession session, Dataset<Row> rows, String mode) {
    SparkPlan plan = plan(session, rows, mode);
    List<StateStoreSaveExec> saves = new ArrayList<>();
    List<SparkPlan> todo = new ArrayList<>(List.of(plan));
    while (!todo.isEmpty()) {
      SparkPlan node = todo.remove(todo.size() - 1);
      if (node instanceof StateStoreSaveExec save) {
        saves.add(save);
      }
      todo.addAll(CollectionConverters.asJava(node.children()));
    }
    if (saves.size() != 1 || !(saves.get(0).child() instanceof BaseAggregateExec)) {
      throw new OperatorFault("INTERNAL", "a query with " + saves.size() + " aggregates of Spark");
    }
    StateStoreSaveExec save = saves.get(0);
    List<Literal> initial = new ArrayList<>();
    for (AggregateExpression call : CollectionConverters.asJava(((BaseAggregateExec) save.child()).aggregateExpressions())) {
      initial.addAll(initial(call.aggregateFunction()));
    }
    StructType values = save.stateManager().getStateValueSchema();
    if (values.size() != initial.size()) {
      throw new OperatorFault("INTERNAL", "a state of " + values.size() + " values for " + initial.size() + " buffers");
    }
    return new GroupBuffers(schema(save.keyExpressions()), values, initial);
  }

  private static SparkPlan plan(SparkSession session, Dataset<Row> rows, String mode) {
    OutputMode output = mode.equals("update") ? OutputMode.Update() : OutputMode.Append();
    OffsetSeqMetadata metadata = new OffsetSeqMetadata(0, 0, Map$.MODULE$.empty());
    return new IncrementalExecution(
            session,
            ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan(),
            output,
            "<none>",
            UUID.randomUUID(),
            UUID.randomUUID(),
            0,
            Option.empty(),
            metadata,
            WatermarkPropagator$.MODULE$.noop(),
            false,
            IncrementalExecution$.MODULE$.$lessinit$greater$default$12(),
            IncrementalExecution$.MODULE$.$lessinit$greater$default$13(),
            IncrementalExecution$.MODULE$.$lessinit$greater$default$14(),
            IncrementalExecution$.MODULE$.$lessinit$greater$default$15())
        .sparkPlan();
  }

  private static List<Literal> initial(AggregateFunction function) {
    List<Literal> values = new ArrayList<>();
    if (function instanceof DeclarativeAggregate declared) {
      for (Expression value : CollectionConverters.asJava(declared.initialValues())) {
        values.add(Literal.create(value.eval(null), value.dataType()));
      }
      return values;
    }
    ImperativeAggregate buffer = ((ImperativeAggregate) function).withNewMutableAggBufferOffset(0);
    StructType types = buffer.aggBufferSchema();
    InternalRow row = new SpecificInternalRow(types);
    buffer.initialize(row);
    if (buffer instanceof TypedImperativeAggregate<?> typed) {
      typed.serializeAggregateBufferInPlace(row);
    }
    for (int index = 0; index < types.size(); index++) {
      DataType type = types.apply(index).dataType();
      values.add(Literal.create(row.get(index, type), type));
    }
    return values;
  }

  private static StructType schema(Seq<Attribute> attributes) {
    StructType schema = new StructType();
    for (Attribute attribute : CollectionConverters.asJava(attributes)) {
      schema = schema.add(attribute.name(), attribute.dataType(), attribute.nullable());
    }
    return schema;
  }

  int size() {
    return values.size();
  }

  StructType values() {
    return values;
  }

  /** Refuses a state whose keys or first values have other types. */
  void checkHolds(StructType heldKeys, StructType held) {
    if (!isPrefix(heldKeys, keys) || heldKeys.size() != keys.size() || !isPrefix(held, values)) {
      String detail = "groups of " + heldKeys.simpleString() + " with " + held.simpleString() + " cannot become groups of "
          + keys.simpleString() + " with " + values.simpleString();
      throw new OperatorFault("CHECKPOINT_OTHER_GROUPS", detail);
    }
  }

  private static boolean isPrefix(StructType part, StructType whole) {
    if (part.size() > whole.size()) {
      return false;
    }
    for (int index = 0; index < part.size(); index++) {
      if (!part.apply(index).dataType().sameType(whole.apply(index).dataType())) {
        return false;
      }
    }
    return true;
  }

  /** From a row of the first values to a row of all values. */
  UnsafeProjection grownFrom(StructType held) {
    List<Expression> row = new ArrayList<>();
    for (int index = 0; index < values.size(); index++) {
      StructField field = values.apply(index);
      row.add(index < held.size() ? new BoundReference(index, field.dataType(), field.nullable()) : initial.get(index));
    }
    return UnsafeProjection.create(CollectionConverters.asScala(row.iterator()).toSeq());
  }
}
