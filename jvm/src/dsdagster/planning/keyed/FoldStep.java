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
  private final Seq<Attribute> given;

  /**
   * @param sorted rows in the order of their keys
   * @param given the columns of these rows: the key's, the row, packed, and its weight
   * @param folded the row, and whether it is deleted
   */
  FoldStep(SparkPlan sorted, Seq<Attribute> given, Seq<Attribute> folded) {
    super(sorted, folded);
    this.given = given;
  }

  @Override
  protected FoldStep of(SparkPlan child) {
    return new FoldStep(child, given, output());
  }

  @Override
  public RDD<InternalRow> doExecute() {
    List<Attribute> columns = CollectionConverters.asJava(given);
    int row = columns.size() - 2;
    List<Expression> keys = new ArrayList<>();
    for (Attribute key : columns.subList(0, row)) {
      keys.add(new BoundReference(indexOf(key), key.dataType(), key.nullable()));
    }
    FoldTask task = new FoldTask(PlanTree.seq(keys), indexOf(columns.get(row)), indexOf(columns.get(row + 1)));
    return child().execute().toJavaRDD().mapPartitions(task).rdd();
  }

  private int indexOf(Attribute column) {
    return PlanTree.indexOf(column, child());
  }
}
