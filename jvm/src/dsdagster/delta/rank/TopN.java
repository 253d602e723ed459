package dsdagster.delta.rank;

import dsdagster.Expressions;
import dsdagster.KeyPlace;
import dsdagster.Keyed;
import dsdagster.delta.Expiry;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The first rows of each partition of weighted rows; changes of them are emitted as retractions and additions.
 *
 * <p>Input columns: the partition's, the columns of ORDER BY, {@code row} struct, {@code w} long. Output: {@code row},
 * {@code rank} long (0 if the query does not use it, so that a row that only moves is not a change), {@code w}.
 */
public final class TopN {
  private TopN() {}

  /**
   * Applies the operator.
   *
   * @param ranking JSON, see {@link Ranking#read}
   * @param appendOnly rows are never retracted, so only the first rows are kept
   * @param whole all rows of a partition arrive in one batch, so nothing is kept
   * @param ranked whether the rank is emitted
   * @param ttl milliseconds without a change after which a partition is forgotten; 0: never
   * @param place name of a {@link KeyPlace}
   */
  public static Dataset<Row> apply(
      Dataset<Row> input,
      int keys,
      String ranking,
      boolean appendOnly,
      boolean whole,
      boolean ranked,
      long ttl,
      String place) {
    Ranking read = Ranking.read(ranking);
    Expiry expiry = new Expiry(whole ? 0 : ttl);
    StructType rowType = (StructType) input.schema().apply("row").dataType();
    List<Column> columns = new ArrayList<>();
    StructType order = new StructType();
    for (int i = 0; i < keys + read.terms(); i++) {
      columns.add(input.col(input.columns()[i]));
      order = i < keys ? order : order.add(input.schema().fields()[i]);
    }
    columns.add(Expressions.pack(input.col("row"), rowType).as("payload"));
    columns.add(input.col(Keyed.WEIGHT));
    Dataset<Row> packed = input.select(columns.toArray(new Column[0]));
    StructType output =
        new StructType()
            .add("row", DataTypes.BinaryType)
            .add("rank", DataTypes.LongType)
            .add(Keyed.WEIGHT, DataTypes.LongType);
    TopNProcessor processor =
        new TopNProcessor(
            read, keys, order, appendOnly, whole, ranked, expiry, KeyPlace.valueOf(place));
    Dataset<Row> first =
        Keyed.grouped(packed, keys)
            .transformWithState(processor, expiry.timeMode(), OutputMode.Append(), Encoders.row(output));
    return first.select(
        Expressions.unpack(first.col("row"), rowType).as("row"), first.col("rank"), first.col(Keyed.WEIGHT));
  }
}
