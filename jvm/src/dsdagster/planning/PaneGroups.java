package dsdagster.planning;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateMode;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial$;
import org.apache.spark.sql.catalyst.expressions.aggregate.PartialMerge$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.aggregate.HashAggregateExec;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Aggregates the rows of a task by pane before each of them becomes a row of several windows.
 *
 * <p>All rows of a pane are in the same windows, so a task has one row to repeat for each pane and key, in place of each
 * row that it reads. What is sent and kept is the same. Where groups have few rows a task has one more look in a hash table
 * for each row, besides one for each window.
 *
 * <p>Rules: the column {@link #PANE} decides alone which windows a row is in. Functions whose results depend on the order of
 * rows stay above.
 */
final class PaneGroups {
  /** Column of a row's pane, see {@code ds_dagster/spark/operators/windows.py}. */
  private static final String PANE = "__pane";

  private static final Set<Class<?>> FUNCTIONS =
      Set.of(Average.class, Count.class, Max.class, Min.class, Sum.class);

  private final HashAggregateExec groups;
  private final ProjectExec columns;
  private final GenerateExec repeated;

  private PaneGroups(HashAggregateExec groups, ProjectExec columns, GenerateExec repeated) {
    this.groups = groups;
    this.columns = columns;
    this.repeated = repeated;
  }

  static SparkPlan of(SparkPlan plan) {
    SparkPlan result = PlanTree.withChildren(plan, PaneGroups::of);
    if (result instanceof HashAggregateExec groups
        && groups.child() instanceof ProjectExec columns
        && columns.child() instanceof GenerateExec repeated) {
      PaneGroups panes = new PaneGroups(groups, columns, repeated);
      return panes.isPossible() ? panes.rewritten() : result;
    }
    return result;
  }

  private boolean isPossible() {
    Set<String> ofWindows = new HashSet<>();
    references((Expression) repeated.generator()).forEach(column -> ofWindows.add(column.name()));
    for (NamedExpression column : columns()) {
      if (isOfWindow(column)) {
        references((Expression) column).stream()
            .filter(other -> !isNumber(other))
            .forEach(other -> ofWindows.add(other.name()));
      } else if (!((Expression) column).deterministic()) {
        return false;
      }
    }
    return ofWindows.equals(Set.of(PANE)) && functions().stream().allMatch(this::isOfPanes) && groupsByColumns();
  }

  /** Whether a function can be computed by pane, of columns that do not depend on the window. */
  private boolean isOfPanes(AggregateExpression function) {
    Set<ExprId> ofWindows = new HashSet<>();
    columns().stream().filter(this::isOfWindow).forEach(column -> ofWindows.add(column.exprId()));
    return references(function).stream().noneMatch(column -> ofWindows.contains(column.exprId()))
        && isPartial(function);
  }

  private static boolean isPartial(AggregateExpression function) {
    return function.mode().equals(Partial$.MODULE$)
        && !function.isDistinct()
        && function.filter().isEmpty()
        && FUNCTIONS.contains(function.aggregateFunction().getClass());
  }

  private boolean groupsByColumns() {
    return keys().stream().allMatch(Attribute.class::isInstance);
  }

  private SparkPlan rewritten() {
    List<Attribute> partial = new ArrayList<>();
    functions().forEach(one -> partial.addAll(list(one.aggregateFunction().inputAggBufferAttributes())));
    SparkPlan panes = panes(partial);
    GenerateExec windows =
        new GenerateExec(
            repeated.generator(), panes.output(), repeated.outer(), repeated.generatorOutput(), panes);
    List<NamedExpression> above = new ArrayList<>();
    keys().forEach(key -> above.add(isOfWindow(column(key)) ? column(key) : key));
    above.addAll(partial);
    List<AggregateExpression> merging = new ArrayList<>();
    functions().forEach(one -> merging.add(in(one, PartialMerge$.MODULE$)));
    return groups(
        keys(), seq(merging), keys().size(), list(groups.resultExpressions()), new ProjectExec(seq(above), windows));
  }

  /** The rows by pane and by the keys that do not depend on the window. */
  private SparkPlan panes(List<Attribute> partial) {
    Attribute pane = pane();
    List<NamedExpression> below = new ArrayList<>(List.of(pane));
    columns().stream().filter(column -> !isOfWindow(column)).forEach(below::add);
    List<NamedExpression> keys = new ArrayList<>(List.of(pane));
    keys().stream().filter(key -> !isOfWindow(column(key))).forEach(keys::add);
    List<NamedExpression> results = new ArrayList<>(keys);
    results.addAll(partial);
    return groups(
        keys, groups.aggregateExpressions(), 0, results, new ProjectExec(seq(below), repeated.child()));
  }

  private HashAggregateExec groups(
      List<NamedExpression> keys,
      Seq<AggregateExpression> functions,
      int begin,
      List<NamedExpression> results,
      SparkPlan child) {
    return new HashAggregateExec(
        Option.empty(), groups.isStreaming(), groups.numShufflePartitions(), seq(keys), functions,
        groups.aggregateAttributes(), begin, seq(results), child);
  }

  private static AggregateExpression in(AggregateExpression function, AggregateMode mode) {
    return function.copy(function.aggregateFunction(), mode, false, Option.empty(), function.resultId());
  }

  private Attribute pane() {
    for (Attribute column : list(repeated.child().output())) {
      if (column.name().equals(PANE)) {
        return column;
      }
    }
    throw new IllegalStateException("no column " + PANE);
  }

  private boolean isOfWindow(NamedExpression column) {
    return references((Expression) column).stream().anyMatch(this::isNumber);
  }

  /** Whether a column is made by repeating rows. */
  private boolean isNumber(Attribute column) {
    return list(repeated.generatorOutput()).stream().anyMatch(other -> other.exprId().equals(column.exprId()));
  }

  /** What a key of the groups is computed by. */
  private NamedExpression column(NamedExpression key) {
    ExprId id = key.exprId();
    return columns().stream().filter(column -> column.exprId().equals(id)).findFirst().orElseThrow();
  }

  private List<NamedExpression> columns() {
    return list(columns.projectList());
  }

  private List<NamedExpression> keys() {
    return list(groups.groupingExpressions());
  }

  private List<AggregateExpression> functions() {
    return list(groups.aggregateExpressions());
  }

  private static List<Attribute> references(Expression expression) {
    return list(expression.references().toSeq());
  }

  private static <T> List<T> list(Seq<T> items) {
    return CollectionConverters.asJava(items);
  }

  private static <T> Seq<T> seq(List<T> items) {
    return PlanTree.seq(items);
  }
}
