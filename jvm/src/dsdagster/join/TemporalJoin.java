package dsdagster.join;

import static org.apache.spark.sql.functions.coalesce;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.when;

import dsdagster.Expressions;
import dsdagster.Keyed;
import dsdagster.time.Counters;
import dsdagster.time.PassedTime;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Temporal join of a stream with a changelog: every stream row is joined with the version valid at its event time.
 *
 * <p>Input columns: {@code k} struct of key columns, {@code side} int (0 stream, 1 changelog), {@code ts} long
 * (microseconds), {@code ord} string (source position, sorts as text), {@code deleted} boolean, {@code l} struct,
 * {@code r} struct, and {@code et}, which only has the time of ticks and must have no watermark metadata. Output:
 * {@code l}, {@code r}. Rows are sent and stored as packed bytes; the join does not read them.
 *
 * <p>Rules: no row is dropped here. A late version is added, a late stream row is joined at once with the valid version
 * among the kept ones; both are counted. A key with a null in it matches nothing.
 */
public final class TemporalJoin {
  private static final int MOST_VERSIONS = 256;

  private TemporalJoin() {}

  /**
   * Applies the join.
   *
   * @param edgeMillis difference between event time and the watermark
   * @param lateRows whether stream rows older than event time count as late; rows that a join below has held back do
   *     not
   * @param job job whose clock shows the late counts; null: they are not shown
   */
  public static Dataset<Row> apply(
      Dataset<Row> input,
      boolean outer,
      boolean immediate,
      long retentionMicros,
      long edgeMillis,
      boolean lateRows,
      String job) {
    StructType schema = input.schema();
    StructType left = (StructType) schema.apply("l").dataType();
    StructType right = (StructType) schema.apply("r").dataType();
    TemporalJoinSettings settings = 
        new TemporalJoinSettings(outer, immediate, retentionMicros, MOST_VERSIONS, edgeMillis);
    StructType key = (StructType) schema.apply("k").dataType();
    Dataset<Row> packed = packed(input, key, left, right, outer);
    StructType keyType = Keyed.nullableKey(packed.schema(), key.size());
    TemporalJoinProcessor processor =
        new TemporalJoinProcessor(
            settings,
            keyType,
            PassedTime.of(job),
            Counters.of(input.sparkSession(), lateRows ? job : null, "late_rows"),
            Counters.of(input.sparkSession(), job, "late_versions"));
    StructType output = new StructType().add("l", DataTypes.BinaryType).add("r", DataTypes.BinaryType);
    Dataset<Row> joined =
        Keyed.grouped(packed, keyType)
            .transformWithState(
                processor,
                immediate ? TimeMode.None() : TimeMode.EventTime(),
                OutputMode.Append(),
                Encoders.row(output));
    return joined.select(
        Expressions.unpack(joined.col("l"), left).as("l"), Expressions.unpack(joined.col("r"), right).as("r"));
  }

  /** Flat key columns (a struct would sort slowly), side code, time, position and the row as bytes. */
  private static Dataset<Row> packed(
      Dataset<Row> input, StructType key, StructType left, StructType right, boolean outer) {
    List<Column> columns = new ArrayList<>();
    Column nullKey = lit(false);
    int index = 0;
    for (StructField field : key.fields()) {
      Column part = input.col("k").getField(field.name());
      nullKey = nullKey.or(part.isNull());
      columns.add(part.as("k" + index++));
    }
    Column isStream = input.col("side").equalTo(0);
    Column matchable = when(isStream, TemporalJoinProcessor.STREAM)
        .when(coalesce(input.col("deleted"), lit(false)), TemporalJoinProcessor.DELETE)
        .otherwise(TemporalJoinProcessor.VERSION);
    Column side = when(nullKey, when(isStream, TemporalJoinProcessor.UNMATCHABLE)).otherwise(matchable);
    columns.add(side.as("side"));
    columns.add(input.col("ts"));
    columns.add(coalesce(input.col("ord"), lit("")).cast(DataTypes.BinaryType).as("ord"));
    columns.add(
        when(isStream, Expressions.pack(input.col("l"), left))
            .otherwise(Expressions.pack(input.col("r"), right))
            .as("payload"));
    Dataset<Row> packed = input.select(columns.toArray(new Column[0]));
    Column kept = packed.col("side").isNotNull();
    return packed.where(
        outer ? kept : kept.and(packed.col("side").notEqual(TemporalJoinProcessor.UNMATCHABLE)));
  }
}
