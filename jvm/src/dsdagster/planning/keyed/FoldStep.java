package dsdagster.planning.keyed;

import dsdagster.planning.DriverPlan;
import dsdagster.planning.PlanTree;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Folds rows with weights, without a store: {@code dsdagster.delta.Fold} keeps nothing, but Spark opens and commits a
 * store for its step, in each batch and partition, and makes an object of each row.
 */
final class FoldStep extends DriverPlan {
  private final transient SparkPlan sorted;
  private final Seq<Attribute> given;
  private final Seq<Attribute> folded;

  /**
   * @param sorted rows in the order of their keys
   * @param given the columns of these rows: the key's, the row, packed, and its weight
   * @param folded the row, and whether it is deleted
   */
  FoldStep(SparkPlan sorted, Seq<Attribute> given, Seq<Attribute> folded) {
    super(sorted);
    this.sorted = sorted;
    this.given = given;
    this.folded = folded;
  }

  @Override
  public Seq<Attribute> output() {
    return folded;
  }

  @Override
  protected FoldStep of(SparkPlan child) {
    return new FoldStep(child, given, folded);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    List<Attribute> columns = CollectionConverters.asJava(given);
    int row = columns.size() - 2;
    List<Expression> keys = new ArrayList<>();
    columns.subList(0, row).forEach(key -> keys.add(reference(key)));
    FoldTask task =
        new FoldTask(
            PlanTree.seq(keys), reference(columns.get(row)).ordinal(), reference(columns.get(row + 1)).ordinal());
    return sorted.execute().toJavaRDD().mapPartitions(task).rdd();
  }

  private BoundReference reference(Attribute column) {
    List<Attribute> output = CollectionConverters.asJava(sorted.output());
    for (int index = 0; index < output.size(); index++) {
      if (output.get(index).exprId().equals(column.exprId())) {
        return new BoundReference(index, column.dataType(), column.nullable());
      }
    }
    throw new IllegalStateException("no " + column + " in the rows that are folded");
  }
}
