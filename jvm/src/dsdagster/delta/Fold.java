package dsdagster.delta;

import dsdagster.Expressions;
import dsdagster.Keyed;
import dsdagster.OperatorFault;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
 * and retractions of one batch are enough.
 *
 * <p>Input columns: the key's, then {@code row} struct, {@code w} long. Output: {@code row} struct, {@code deleted}
 * boolean; a delete carries the retracted row.
 */
public final class Fold {
  private Fold() {}

  public static Dataset<Row> apply(Dataset<Row> input, int keys) {
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
            .transformWithState(new Processor(keys), TimeMode.None(), OutputMode.Append(), Encoders.row(output));
    return folded.select(Expressions.unpack(folded.col("row"), rowType).as("row"), folded.col("deleted"));
  }

  /** One key at a time. */
  static final class Processor extends StatefulProcessor<Row, Row, Row> {
    private static final long serialVersionUID = 1L;
    private final int rowColumn;

    Processor(int keys) {
      this.rowColumn = keys;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {}

    @Override
    public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
      Packed batch = new Packed();
      while (rows.hasNext()) {
        Row row = rows.next();
        batch.add(row.getAs(rowColumn), row.getLong(rowColumn + 1));
      }
      byte[] appeared = null;
      byte[] gone = null;
      for (Map.Entry<ByteBuffer, Long> entry : batch.net().entrySet()) {
        if (entry.getValue() < 0) {
          gone = entry.getKey().array();
        } else if (appeared != null || entry.getValue() > 1) {
          throw new OperatorFault("KEY_NOT_UNIQUE", "a key has several rows at once");
        } else {
          appeared = entry.getKey().array();
        }
      }
      List<Row> output = new ArrayList<>(1);
      if (appeared != null) {
        output.add(RowFactory.create(appeared, false));
      } else if (gone != null) {
        output.add(RowFactory.create(gone, true));
      }
      return Keyed.iterator(output);
    }
  }
}
