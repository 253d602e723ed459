package dsdagster.join;

import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.unix_micros;
import static org.apache.spark.sql.functions.when;

import dsdagster.Expressions;
import dsdagster.Keyed;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Interval join of two streams: pairs of rows of one key whose times are at most WITHIN apart.
 *
 * <p>Input columns: the key's, then {@code side} int (0 left, 1 right), {@code l} struct, {@code r} struct (null for
 * the other side), {@code et}, the row's time with the watermark metadata. Output: {@code l}, {@code r}; a row without
 * a partner has null for the other side. Rows are sent and stored as packed bytes.
 *
 * <p>Rules: Spark drops late rows, by {@code et}. A pair is emitted as soon as both rows are there. A row without a
 * partner is emitted and forgotten when the watermark has passed all rows that could join it. A key with a null in it
 * matches nothing. Results may be older than the watermark by the bound, so no later step may use their time.
 */
public final class IntervalJoin {
  private IntervalJoin() {}

  /** @param kind inner, left or full */
  public static Dataset<Row> apply(Dataset<Row> input, int keys, String kind, long withinMicros) {
    StructType left = (StructType) input.schema().apply("l").dataType();
    StructType right = (StructType) input.schema().apply("r").dataType();
    boolean lonelyRight = kind.equals("full");
    boolean lonelyLeft = lonelyRight || kind.equals("left");
    Dataset<Row> packed = packed(input, keys, left, right, lonelyLeft, lonelyRight);
    StructType keyType = Keyed.nullableKey(packed.schema(), keys);
    StructType output = new StructType().add("l", DataTypes.BinaryType).add("r", DataTypes.BinaryType);
    IntervalJoinProcessor processor = new IntervalJoinProcessor(keyType, lonelyLeft, lonelyRight, withinMicros);
    Dataset<Row> joined =
        Keyed.grouped(packed, keyType)
            .transformWithState(processor, TimeMode.EventTime(), OutputMode.Append(), Encoders.row(output));
    return joined.select(
        Expressions.unpack(joined.col("l"), left).as("l"), Expressions.unpack(joined.col("r"), right).as("r"));
  }

  /** The keys, the side, the time in microseconds, the row as bytes, the time; only rows that can be emitted. */
  private static Dataset<Row> packed(
      Dataset<Row> input, int keys, StructType left, StructType right, boolean lonelyLeft, boolean lonelyRight) {
    List<Column> columns = new ArrayList<>();
    Column isLeft = input.col("side").equalTo(0);
    Column leaves = lonelyRight ? lit(true) : lonelyLeft ? isLeft : lit(false);
    Column matchable = lit(true);
    for (int i = 0; i < keys; i++) {
      Column key = input.col(input.columns()[i]);
      columns.add(key.as("k" + i));
      matchable = matchable.and(key.isNotNull());
    }
    columns.add(input.col("side"));
    columns.add(unix_micros(input.col("et")).as("ts"));
    columns.add(
        when(isLeft, Expressions.pack(input.col("l"), left))
            .otherwise(Expressions.pack(input.col("r"), right))
            .as("payload"));
    columns.add(input.col("et"));
    return input.where(matchable.or(leaves)).select(columns.toArray(new Column[0]));
  }
}
