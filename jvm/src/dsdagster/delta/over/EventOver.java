package dsdagster.delta.over;

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
 * OVER: results of each appended row, computed from the rows before it in event time, once the watermark has passed
 * the row.
 *
 * <p>Input columns: the partition's, {@code et} timestamp with the watermark metadata (Spark drops late rows by it),
 * the arguments', {@code row} struct. Output: {@code row}, then one column per call ({@code c0} …). A row without an
 * event time is left out.
 */
public final class EventOver {
  /** No time to live. */
  public static final long NEVER = Long.MAX_VALUE;

  private EventOver() {}

  /**
   * Applies the operator.
   *
   * @param calls JSON, see {@link OverCall#read}
   * @param byTime whether the frame is a range of time (RANGE; rows with equal times are in each other's frames), not a
   *     number of rows (ROWS)
   * @param before size of the frame, in microseconds or rows; negative: unbounded
   * @param ttlMicros event time without a row after which a partition starts over; 0: never
   */
  public static Dataset<Row> apply(
      Dataset<Row> input, int keys, String calls, boolean byTime, long before, long ttlMicros) {
    List<OverCall> read = OverCall.read(calls);
    StructType rowType = (StructType) input.schema().apply("row").dataType();
    List<Column> columns = new ArrayList<>();
    for (int i = 0; i < keys; i++) {
      columns.add(input.col(input.columns()[i]));
    }
    columns.add(input.col("et"));
    columns.add(functions.unix_micros(input.col("et")).as("ts"));
    StructType arguments = new StructType();
    List<Column> values = new ArrayList<>();
    for (int i = keys + 1; i < input.columns().length - 1; i++) {
      values.add(input.col(input.columns()[i]));
      arguments = arguments.add(input.schema().fields()[i]);
    }
    Column packedValues = functions.struct(values.toArray(new Column[0]));
    columns.add(Expressions.pack(packedValues, arguments).as("arguments"));
    columns.add(Expressions.pack(input.col("row"), rowType).as("payload"));
    Dataset<Row> packed = input.select(columns.toArray(new Column[0]));
    StructType output = new StructType().add("row", DataTypes.BinaryType);
    for (int i = 0; i < read.size(); i++) {
      output = output.add("c" + i, read.get(i).type());
    }
    StructType keyType = Keyed.nullableKey(packed.schema(), keys);
    EventOverProcessor processor =
        new EventOverProcessor(read, keyType, arguments, byTime, before, ttlMicros == 0 ? NEVER : ttlMicros);
    Dataset<Row> made =
        Keyed.grouped(packed, keyType)
            .transformWithState(processor, TimeMode.EventTime(), OutputMode.Append(), Encoders.row(output));
    Column[] results = new Column[1 + read.size()];
    results[0] = Expressions.unpack(made.col("row"), rowType).as("row");
    for (int i = 0; i < read.size(); i++) {
      results[i + 1] = made.col("c" + i);
    }
    return made.select(results);
  }
}
