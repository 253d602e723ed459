package dsdagster.delta.aggregate;

import dsdagster.Keyed;
import dsdagster.delta.Expiry;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * GROUP BY over weighted rows: a retraction undoes exactly what its row has added.
 *
 * <p>Input columns: the group's, the arguments', {@code w} long. A FILTER is an argument that is null where its
 * condition is not true. Output: the group's columns, one column per call ({@code c0} …), then either {@code w} long
 * (the old result is retracted, the new one added) or {@code deleted} boolean (at most one row per group and batch,
 * which replaces the old result of the key). A group without rows has no result.
 */
public final class DeltaAggregate {
  private DeltaAggregate() {}

  /**
   * Applies the aggregate.
   *
   * @param calls JSON, see {@link Call#read}
   * @param appendOnly rows are never retracted, so extremes need no list of values
   * @param weighted whether the output has {@code w}, not {@code deleted}
   * @param ttl milliseconds without a change after which groups and values are forgotten; 0: never
   */
  public static Dataset<Row> apply(
      Dataset<Row> input, int keys, String calls, boolean appendOnly, boolean weighted, long ttl) {
    Expiry expiry = new Expiry(ttl);
    List<Call> read = Call.read(calls);
    StructType arguments = new StructType();
    StructField[] fields = input.schema().fields();
    for (int i = keys; i < fields.length - 1; i++) {
      arguments = arguments.add(fields[i]);
    }
    StructType results = new StructType();
    for (int i = 0; i < read.size(); i++) {
      results = results.add("c" + i, read.get(i).type());
    }
    StructType output = Keyed.keySchema(input.schema(), keys);
    for (StructField field : results.fields()) {
      output = output.add(field);
    }
    output = weighted
        ? output.add(Keyed.WEIGHT, DataTypes.LongType)
        : output.add("deleted", DataTypes.BooleanType);
    DeltaAggregateProcessor processor =
        new DeltaAggregateProcessor(read, keys, arguments, results, appendOnly, weighted, expiry);
    return Keyed.grouped(input, keys)
        .transformWithState(processor, expiry.timeMode(), OutputMode.Append(), Encoders.row(output));
  }
}
