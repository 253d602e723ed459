package dsdagster.delta;

import dsdagster.Keyed;
import dsdagster.OperatorFault;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;

/**
 * One row of a side at a time. Rows arrive packed: whether the row is of that side, the row, the other row of a pair
 * (null: the row itself is added or retracted), the weight. State: the number of copies of the row, and of pairs with
 * it.
 */
final class LonelyProcessor extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;
  private static final StructType COUNTS =
      new StructType().add("own", DataTypes.LongType).add("pairs", DataTypes.LongType);

  private final boolean isLeft;
  private transient ValueState<Row> counts;

  LonelyProcessor(boolean isLeft) {
    this.isLeft = isLeft;
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    counts = getHandle().getValueState("counts", Encoders.row(COUNTS), TTLConfig.NONE());
  }

  @Override
  public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
    byte[] row = key.getAs(1);
    List<Row> output = new ArrayList<>();
    if (!key.getBoolean(0)) {
      while (rows.hasNext()) {
        output.add(made(null, row, rows.next().getLong(3)));
      }
      return Keyed.iterator(output);
    }
    long moreOwn = 0;
    long morePairs = 0;
    while (rows.hasNext()) {
      Row next = rows.next();
      long weight = next.getLong(3);
      if (next.isNullAt(2)) {
        moreOwn += weight;
      } else {
        morePairs += weight;
        output.add(made(row, next.getAs(2), weight));
      }
    }
    long change = change(moreOwn, morePairs);
    if (change != 0) {
      output.add(made(row, null, change));
    }
    return Keyed.iterator(output);
  }

  /** Change of the number of copies that are emitted without a partner. */
  private long change(long moreOwn, long morePairs) {
    if (moreOwn == 0 && morePairs == 0) {
      return 0;
    }
    Row before = counts.get();
    long ownBefore = before == null ? 0 : before.getLong(0);
    long pairsBefore = before == null ? 0 : before.getLong(1);
    long own = ownBefore + moreOwn;
    long pairs = pairsBefore + morePairs;
    if (own < 0 || pairs < 0) {
      throw new OperatorFault("WEIGHT_NEGATIVE", "a join got the retraction of a row it never had");
    }
    if (own != 0 || pairs != 0) {
      counts.update(RowFactory.create(own, pairs));
    } else if (before != null) {
      counts.clear();
    }
    return (pairs == 0 ? own : 0) - (pairsBefore == 0 ? ownBefore : 0);
  }

  private Row made(byte[] own, byte[] other, long weight) {
    return isLeft ? RowFactory.create(own, other, weight) : RowFactory.create(other, own, weight);
  }
}
