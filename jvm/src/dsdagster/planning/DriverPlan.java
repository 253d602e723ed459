package dsdagster.planning;

import java.util.List;
import java.util.Objects;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of its child, whose plan stays on the driver: tasks read the rows of an exchange by its number and need the
 * columns alone.
 */
public class DriverPlan extends SparkPlan {
  private final transient SparkPlan child;
  private final Seq<Attribute> output;

  public DriverPlan(SparkPlan child) {
    this(child, child.output());
  }

  /** {@code output}: the columns of its rows, where they are not those of the child. */
  protected DriverPlan(SparkPlan child, Seq<Attribute> output) {
    this.child = child;
    this.output = output;
  }

  protected SparkPlan child() {
    return child;
  }

  @Override
  public Seq<SparkPlan> children() {
    return PlanTree.seq(List.of(child));
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    Seq<SparkPlan> all = children;
    return of(CollectionConverters.asJava(all).get(0));
  }

  /** This node above another child. */
  protected SparkPlan of(SparkPlan child) {
    return new DriverPlan(child);
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other != null && other.getClass() == getClass();
  }

  @Override
  public boolean equals(Object other) {
    return canEqual(other) && Objects.equals(child, ((DriverPlan) other).child);
  }

  @Override
  public int hashCode() {
    return Objects.hash(getClass(), child);
  }
}
