package dsdagster.delta;

import dsdagster.Expressions;
import dsdagster.Keyed;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * Upserts and deletes by key → weighted rows: the old row is retracted (-1), the new one added (+1).
 *
 * <p>Input columns: the key's, then {@code ord} binary (position in the source; the last row of a batch counts),
 * {@code deleted} boolean, {@code row} struct. Output: {@code row} struct, {@code w} long. State: the last row of each
 * key, kept for the {@link Expiry} after its last upsert. A delete of an unknown key and an upsert that changes nothing
 * give no row.
 */
public final class UpsertToDelta {
  private UpsertToDelta() {}

  /** @param ttl milliseconds without an upsert after which a key is forgotten; 0: never */
  public static Dataset<Row> apply(Dataset<Row> input, int keys, long ttl) {
    Expiry expiry = new Expiry(ttl);
    StructType rowType = (StructType) input.schema().apply("row").dataType();
    List<Column> columns = new ArrayList<>();
    for (int i = 0; i < keys; i++) {
      columns.add(input.col(input.columns()[i]));
    }
    columns.add(input.col("ord"));
    Column payload = functions.when(functions.not(input.col("deleted")), Expressions.pack(input.col("row"), rowType));
    columns.add(payload.as("payload"));
    Dataset<Row> packed = input.select(columns.toArray(new Column[0]));
    StructType output = new StructType().add("row", DataTypes.BinaryType).add(Keyed.WEIGHT, DataTypes.LongType);
    Dataset<Row> weighted =
        Keyed.grouped(packed, keys)
            .transformWithState(
                new Processor(keys, expiry), expiry.timeMode(), OutputMode.Append(), Encoders.row(output));
    return weighted.select(
        Expressions.unpack(weighted.col("row"), rowType).as("row"), weighted.col(Keyed.WEIGHT));
  }

  /** One key at a time. */
  static final class Processor extends StatefulProcessor<Row, Row, Row> {
    private static final long serialVersionUID = 1L;
    private final int orderColumn;
    private final Expiry expiry;
    private transient ValueState<byte[]> last;

    Processor(int keys, Expiry expiry) {
      this.orderColumn = keys;
      this.expiry = expiry;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
      last = getHandle().getValueState("row", Encoders.BINARY(), expiry.config());
    }

    @Override
    public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
      byte[] order = null;
      byte[] now = null;
      while (rows.hasNext()) {
        Row row = rows.next();
        byte[] position = row.getAs(orderColumn);
        if (order == null || Arrays.compareUnsigned(position, order) >= 0) {
          order = position;
          now = row.getAs(orderColumn + 1);
        }
      }
      byte[] before = last.get();
      List<Row> output = new ArrayList<>(2);
      if (Arrays.equals(before, now)) {
        if (now != null && expiry.isSet()) {
          last.update(now);
        }
        return Keyed.iterator(output);
      }
      if (before != null) {
        output.add(RowFactory.create(before, -1L));
      }
      if (now != null) {
        output.add(RowFactory.create(now, 1L));
        last.update(now);
      } else {
        last.clear();
      }
      return Keyed.iterator(output);
    }
  }
}
