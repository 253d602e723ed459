package dsdagster.join;

import static org.apache.spark.sql.functions.timestamp_micros;
import static org.apache.spark.sql.functions.unix_micros;

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
 * The rows with the greatest value of each window, or of each key in it. They are emitted once, when the watermark
 * passes the window's end.
 *
 * <p>Input columns: the key's, the first of them {@code end} timestamp, then {@code value} bigint, {@code row} struct,
 * {@code et}, the end with the watermark metadata. Output: {@code end}, {@code row}.
 *
 * <p>Rules: as for {@link WindowJoin}, which this operator replaces if a window is joined with its own maximum. A row
 * without a value, or with a null in its key, is left out. Most rows are dropped where they are read ({@link
 * Leaders}).
 */
public final class WindowExtreme {
  private WindowExtreme() {}

  public static Dataset<Row> apply(Dataset<Row> input, int keys) {
    StructType type = (StructType) input.schema().apply("row").dataType();
    Dataset<Row> packed = packed(input, keys, type);
    StructType output =
        new StructType().add("end", DataTypes.LongType).add("row", DataTypes.BinaryType);
    StructType keyType = Keyed.nullableKey(packed.schema(), keys);
    Dataset<Row> leaders =
        Keyed.grouped(packed, keyType)
            .transformWithState(
                new WindowExtremeProcessor(keyType), TimeMode.EventTime(), OutputMode.Append(), Encoders.row(output));
    return leaders.select(
        timestamp_micros(leaders.col("end")).as("end"), Expressions.unpack(leaders.col("row"), type).as("row"));
  }

  /** The end in microseconds, the other keys, the value, the row as bytes, the end as time; only rows that may lead. */
  private static Dataset<Row> packed(Dataset<Row> input, int keys, StructType type) {
    Column end = unix_micros(input.col("end"));
    List<Column> columns = new ArrayList<>(List.of(end.as("k0")));
    List<Column> others = new ArrayList<>();
    Column possible = input.col("value").isNotNull();
    for (int i = 1; i < keys; i++) {
      Column key = input.col(input.columns()[i]);
      columns.add(key.as("k" + i));
      others.add(key);
      possible = possible.and(key.isNotNull());
    }
    columns.add(input.col("value"));
    columns.add(Expressions.pack(input.col("row"), type).as("payload"));
    columns.add(input.col("et"));
    return Leaders.of(input.where(possible), end, others).select(columns.toArray(new Column[0]));
  }
}
