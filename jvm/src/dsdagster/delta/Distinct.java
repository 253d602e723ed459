package dsdagster.delta;

import dsdagster.Keyed;
import dsdagster.OperatorFault;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * Each row once, whatever its weight: added with its first copy, retracted with its last.
 *
 * <p>Input columns: the row's, then {@code w} long. Output: the same; {@code w} is 1 or -1. State: the number of copies
 * of each row.
 */
public final class Distinct {
  private Distinct() {}

  /**
   * Applies the operator.
   *
   * @param appendOnly no weight is below zero, so copies need not be counted
   * @param ttl milliseconds without a change after which a row is forgotten; 0: never
   */
  public static Dataset<Row> apply(Dataset<Row> input, boolean appendOnly, long ttl) {
    Expiry expiry = new Expiry(ttl);
    StructType schema = input.schema();
    int keys = schema.size() - 1;
    return Keyed.grouped(input, keys)
        .transformWithState(new Processor(keys, appendOnly, expiry), expiry.timeMode(), OutputMode.Append(), Encoders.row(schema));
  }

  /** One row at a time. */
  static final class Processor extends StatefulProcessor<Row, Row, Row> {
    private static final long serialVersionUID = 1L;
    private final int keys;
    private final boolean appendOnly;
    private final Expiry expiry;
    private transient ValueState<Long> copies;

    Processor(int keys, boolean appendOnly, Expiry expiry) {
      this.keys = keys;
      this.appendOnly = appendOnly;
      this.expiry = expiry;
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
      copies = getHandle().getValueState("copies", Encoders.LONG(), expiry.config());
    }

    @Override
    public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
      long change = 0;
      while (rows.hasNext()) {
        change += rows.next().getLong(keys);
      }
      List<Row> output = new ArrayList<>(1);
      if (change == 0) {
        return Keyed.iterator(output);
      }
      Long known = copies.get();
      long before = known == null ? 0 : known;
      long now = before + change;
      if ((now < 0 || appendOnly && change < 0) && !expiry.isSet()) {
        throw new OperatorFault("WEIGHT_NEGATIVE", "a row was retracted that was never added");
      }
      now = Math.max(now, 0);
      if (before == now || appendOnly && before > 0 && !expiry.isSet()) {
        return Keyed.iterator(output);
      }
      if (now == 0) {
        copies.clear();
      } else {
        copies.update(now);
      }
      if (before == 0 || now == 0) {
        output.add(made(key, now == 0 ? -1L : 1L));
      }
      return Keyed.iterator(output);
    }

    private Row made(Row key, long weight) {
      Object[] found = new Object[keys + 1];
      for (int i = 0; i < keys; i++) {
        found[i] = key.get(i);
      }
      found[keys] = weight;
      return RowFactory.create(found);
    }
  }
}
