package dsdagster.delta.rank;

import dsdagster.Expressions;
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
 * The first rows of each partition of weighted rows: what a batch changes among them goes and comes.
 *
 * <p>Input columns: the partition's, those of ORDER BY, {@code row} struct, {@code w} long. Output: {@code row},
 * {@code rank} long (0 where nobody asks for it, so that a row that only moves is no change), {@code w}.
 */
public final class TopN {
  private TopN() {}

  /**
   * Applies the operator.
   *
   * @param ranking JSON, see {@link Ranking#read}
   * @param appendOnly no row is ever taken back, so that only the first ones are kept
   * @param whole a partition comes in one batch as a whole, so that nothing is kept
   * @param ranked the rank is wanted
   * @param ttl milliseconds after which a partition that no change touches is forgotten; 0: never
   */
  public static Dataset<Row> apply(
      Dataset<Row> input, int keys, String ranking, boolean appendOnly, boolean whole, boolean ranked, long ttl) {
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
    TopNProcessor processor = new TopNProcessor(read, keys, order, appendOnly, whole, ranked, expiry);
    Dataset<Row> first =
        Keyed.grouped(packed, keys)
            .transformWithState(processor, expiry.timeMode(), OutputMode.Append(), Encoders.row(output));
    return first.select(
        Expressions.unpack(first.col("row"), rowType).as("row"), first.col("rank"), first.col(Keyed.WEIGHT));
  }
}
