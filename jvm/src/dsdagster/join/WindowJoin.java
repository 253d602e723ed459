package dsdagster.join;

import static org.apache.spark.sql.functions.hash;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.pmod;
import static org.apache.spark.sql.functions.struct;
import static org.apache.spark.sql.functions.timestamp_micros;
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
 * Join of rows in the same window. Results are emitted once, when the watermark passes the window's end.
 *
 * <p>Input columns: the key's, the first of them {@code end} timestamp, then {@code side} int (0 left, 1 right),
 * {@code l} struct, {@code r} struct (null for the other side), {@code et}, the end with the watermark metadata.
 * Output: {@code end}, {@code l}, {@code r}; a row without a partner has null for the other side. Rows are sent and
 * stored as packed bytes.
 *
 * <p>A key has few rows in a window, so state is not kept by key: rows are grouped by the window's end and a share of
 * the keys. They are grouped by key in memory when the window is over.
 *
 * <p>Rules: Spark drops rows of closed windows, by {@code et}. The operator drops none, since a window step below
 * emits its rows after the watermark has passed their end. A key with a null in it matches nothing.
 */
public final class WindowJoin {
  /** Number of shares of a window's keys: more shares need less memory at its end, and use more state partitions. */
  private static final int SHARES = 64;

  private WindowJoin() {}

  /** @param kind inner, left or full */
  public static Dataset<Row> apply(Dataset<Row> input, int keys, String kind) {
    StructType left = (StructType) input.schema().apply("l").dataType();
    StructType right = (StructType) input.schema().apply("r").dataType();
    boolean lonelyRight = kind.equals("full");
    boolean lonelyLeft = lonelyRight || kind.equals("left");
    Dataset<Row> packed = packed(input, keys, left, right, lonelyLeft);
    StructType output =
        new StructType()
            .add("end", DataTypes.LongType)
            .add("l", DataTypes.BinaryType)
            .add("r", DataTypes.BinaryType);
    StructType keyType = Keyed.nullableKey(packed.schema(), 2);
    WindowJoinProcessor processor = new WindowJoinProcessor(keyType, lonelyLeft, lonelyRight);
    Dataset<Row> joined =
        Keyed.grouped(packed, keyType)
            .transformWithState(processor, TimeMode.EventTime(), OutputMode.Append(), Encoders.row(output));
    return joined.select(
        timestamp_micros(joined.col("end")).as("end"),
        Expressions.unpack(joined.col("l"), left).as("l"),
        Expressions.unpack(joined.col("r"), right).as("r"));
  }

  /**
   * The end in microseconds, the share, the side, key and row as bytes, the end as time; only rows that can be
   * emitted.
   */
  private static Dataset<Row> packed(Dataset<Row> input, int keys, StructType left, StructType right, boolean outer) {
    Column matchable = lit(true);
    List<Column> others = new ArrayList<>();
    StructType type = new StructType();
    for (int i = 1; i < keys; i++) {
      Column key = input.col(input.columns()[i]);
      matchable = matchable.and(key.isNotNull());
      others.add(key.as("k" + i));
      type = type.add("k" + i, input.schema().fields()[i].dataType());
    }
    Column[] parts = others.toArray(new Column[0]);
    Column share = parts.length == 0 ? lit(0) : pmod(hash(parts), lit(SHARES));
    Column key = parts.length == 0 ? lit(new byte[0]) : Expressions.pack(struct(parts), type);
    return (outer ? input : input.where(matchable))
        .select(
            unix_micros(input.col("end")).as("k0"),
            share.as("share"),
            input.col("side"),
            when(matchable, key).as("key"),
            when(input.col("side").equalTo(0), Expressions.pack(input.col("l"), left))
                .otherwise(Expressions.pack(input.col("r"), right))
                .as("payload"),
            input.col("et"));
  }
}
