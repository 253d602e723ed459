package dsdagster.delta;

import dsdagster.Expressions;
import dsdagster.KeyPlace;
import dsdagster.Keyed;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * Weighted rows → at most one upsert or delete per key and batch. Keeps no state: if the key is unique, the additions
 * and retractions of one batch are enough. So its tasks need no store, see {@code dsdagster.planning.keyed}.
 *
 * <p>Input columns: the key's, then {@code row} struct, {@code w} long. Output: {@code row} struct, {@code deleted}
 * boolean; a delete carries the retracted row.
 */
public final class Fold {
  private Fold() {}

  /**
   * Applies the fold.
   *
   * @param place name of a {@link KeyPlace}
   */
  public static Dataset<Row> apply(Dataset<Row> input, int keys, String place) {
    StructType rowType = (StructType) input.schema().apply("row").dataType();
    List<Column> columns = new ArrayList<>();
    for (int i = 0; i < keys; i++) {
      columns.add(input.col(input.columns()[i]));
    }
    columns.add(Expressions.pack(input.col("row"), rowType).as("payload"));
    columns.add(input.col(Keyed.WEIGHT));
    Dataset<Row> packed = input.select(columns.toArray(new Column[0]));
    StructType output = new StructType().add("row", DataTypes.BinaryType).add("deleted", DataTypes.BooleanType);
    Dataset<Row> folded =
        Keyed.grouped(packed, keys)
            .transformWithState(
                new Processor(keys, KeyPlace.valueOf(place)), TimeMode.None(), OutputMode.Append(), Encoders.row(output));
    return folded.select(Expressions.unpack(folded.col("row"), rowType).as("row"), folded.col("deleted"));
  }

  /** One key at a time. Rows: the key's columns, the row, packed, and its weight. */
  public static final class Processor extends StatefulProcessor<Row, Row, Row> implements KeyPlace.Known {
    private static final long serialVersionUID = 1L;
    private final int rowColumn;
    private final KeyPlace place;

    Processor(int keys, KeyPlace place) {
      this.rowColumn = keys;
      this.place = place;
    }

    @Override
    public KeyPlace place() {
      return place;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {}

    @Override
    public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
      Folding folding = new Folding();
      while (rows.hasNext()) {
        Row row = rows.next();
        folding.add(row.getAs(rowColumn), row.getLong(rowColumn + 1));
      }
      List<Row> output = new ArrayList<>(1);
      if (folding.end()) {
        output.add(RowFactory.create(folding.row(), folding.isDelete()));
      }
      return Keyed.iterator(output);
    }
  }
}
