package dsdagster.delta.join;

import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.when;

import dsdagster.Expressions;
import dsdagster.Keyed;
import dsdagster.delta.Expiry;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Join of two changelogs of weighted rows: changes of either side change the pairs.
 *
 * <p>Input columns: the key's, then {@code side} int (0 left, 1 right), {@code l} struct, {@code r} struct (null for
 * the other side), {@code w} long. Output: {@code l}, {@code r}, {@code w}; a row without a partner has null for the
 * other side. Rows are sent and stored as packed bytes.
 *
 * <p>Rules: a key with a null in it matches nothing. A side's rows are read only if the other side has changed.
 */
public final class DeltaJoin {
  private DeltaJoin() {}

  /**
   * Applies the join.
   *
   * @param kind name of a {@link JoinKind}
   * @param ttl milliseconds without a change after which a row is forgotten; 0: never
   */
  public static Dataset<Row> apply(Dataset<Row> input, int keys, String kind, long ttl) {
    StructType output =
        new StructType()
            .add("l", DataTypes.BinaryType)
            .add("r", DataTypes.BinaryType)
            .add(Keyed.WEIGHT, DataTypes.LongType);
    Expiry expiry = new Expiry(ttl);
    JoinKind joinKind = JoinKind.valueOf(kind.toUpperCase(Locale.ROOT));
    DeltaJoinProcessor processor = new DeltaJoinProcessor(keys, joinKind, expiry);
    Dataset<Row> joined =
        Keyed.grouped(packed(input, keys), keys)
            .transformWithState(processor, expiry.timeMode(), OutputMode.Append(), Encoders.row(output));
    return joined.select(
        Expressions.unpack(joined.col("l"), struct(input, "l")).as("l"),
        Expressions.unpack(joined.col("r"), struct(input, "r")).as("r"),
        joined.col(Keyed.WEIGHT));
  }

  /** Rows as the processor reads them: keys, {@code side}, {@code matchable}, {@code payload} binary, {@code w}. */
  static Dataset<Row> packed(Dataset<Row> input, int keys) {
    List<Column> columns = new ArrayList<>();
    Column matchable = lit(true);
    for (int i = 0; i < keys; i++) {
      Column key = input.col(input.columns()[i]);
      columns.add(key);
      matchable = matchable.and(key.isNotNull());
    }
    Column isLeft = input.col("side").equalTo(0);
    columns.add(input.col("side"));
    columns.add(matchable.as("matchable"));
    columns.add(
        when(isLeft, Expressions.pack(input.col("l"), struct(input, "l")))
            .otherwise(Expressions.pack(input.col("r"), struct(input, "r")))
            .as("payload"));
    columns.add(input.col(Keyed.WEIGHT));
    return input.select(columns.toArray(new Column[0]));
  }

  private static StructType struct(Dataset<Row> input, String column) {
    return (StructType) input.schema().apply(column).dataType();
  }
}
