package dsdagster.delta.rank;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/** Rows of a partition in the order of its ORDER BY. */
final class SortedRows {
  private final MapState<Row, byte[]> stored;
  private final SortKey keys;

  /** @param order columns of ORDER BY; {@link SortKey#isOrdered} is true for the first one */
  SortedRows(StatefulProcessorHandle handle, Ranking ranking, StructType order) {
    stored = handle.getMapState("sorted", Encoders.row(SortKey.TYPE), Encoders.BINARY(), TTLConfig.NONE());
    List<DataType> types = new ArrayList<>();
    for (StructField field : order.fields()) {
      types.add(field.dataType());
    }
    keys = new SortKey(types, ranking.order());
  }

  void put(Candidate row) {
    stored.updateValue(keys.of(row.order(), row.row()), row.row());
  }

  void remove(Candidate row) {
    stored.removeKey(keys.of(row.order(), row.row()));
  }

  /** The first {@code count} rows, and all further rows whose keys have the prefix of the last of them. */
  Iterable<byte[]> first(long count) {
    return () -> new First(CollectionConverters.asJava(stored.iterator()), count);
  }

  private static final class First implements Iterator<byte[]> {
    private final Iterator<Tuple2<Row, byte[]>> rows;
    private final long count;
    private long given;
    private Row last;
    private Tuple2<Row, byte[]> next;

    First(Iterator<Tuple2<Row, byte[]>> rows, long count) {
      this.rows = rows;
      this.count = count;
    }

    @Override
    public boolean hasNext() {
      if (next == null && rows.hasNext()) {
        next = rows.next();
      }
      return next != null && (given < count || SortKey.beginAlike(last, next._1()));
    }

    @Override
    public byte[] next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      byte[] row = next._2();
      last = next._1();
      next = null;
      given++;
      return row;
    }
  }
}
