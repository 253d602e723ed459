package dsdagster.match;

import dsdagster.Conditions;
import dsdagster.Expressions;
import dsdagster.Keyed;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * MATCH_RECOGNIZE: patterns in the rows of a key, in the order of event time.
 *
 * <p>Input columns: key columns, then {@code ts} long (microseconds), {@code ord} string (source position, sorts as
 * text), {@code row} struct, {@code et} timestamp: event time with the watermark metadata of the ticks, so that Spark
 * drops and counts late rows. Output: the key columns, {@code m} struct of the values of a match, {@code ts} of its
 * last row. Rows are sent and stored as packed bytes.
 */
public final class MatchRecognize {
  private MatchRecognize() {}

  /**
   * Applies the operator.
   *
   * @param keys number of key columns
   * @param conditions a projection whose columns are the conditions over rows of the match. Its relation has the
   *     fields of {@code row} and then the values. The projection never runs
   * @param settings JSON, see {@link MatchSettings}
   */
  public static Dataset<Row> apply(Dataset<Row> input, int keys, Dataset<Row> conditions, String settings) {
    StructType row = (StructType) input.schema().apply("row").dataType();
    MatchSettings read = MatchSettings.read(settings);
    StructType values = read.valueTypes();
    List<Column> columns = new ArrayList<>();
    for (int i = 0; i < keys; i++) {
      columns.add(input.col(input.columns()[i]));
    }
    columns.add(input.col("ts"));
    columns.add(functions.coalesce(input.col("ord"), functions.lit("")).cast(DataTypes.BinaryType).as("ord"));
    columns.add(Expressions.pack(input.col("row"), row).as("row"));
    columns.add(input.col("et"));
    Dataset<Row> packed = input.select(columns.toArray(new Column[0]));
    StructType output = Keyed.keySchema(packed.schema(), keys).add("m", DataTypes.BinaryType).add("ts", DataTypes.LongType);
    StructType keyType = Keyed.nullableKey(packed.schema(), keys);
    Dataset<Row> matched =
        Keyed.grouped(packed, keyType)
            .transformWithState(
                new MatchProcessor(read, Conditions.of(conditions), row, values, keyType),
                TimeMode.EventTime(),
                OutputMode.Append(),
                Encoders.row(output));
    List<Column> made = new ArrayList<>();
    for (int i = 0; i < keys; i++) {
      made.add(matched.col(matched.columns()[i]));
    }
    made.add(Expressions.unpack(matched.col("m"), values).as("m"));
    made.add(matched.col("ts"));
    return matched.select(made.toArray(new Column[0]));
  }
}
