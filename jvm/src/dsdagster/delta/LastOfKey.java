package dsdagster.delta;

import java.util.Arrays;
import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;

/** Of the upserts and deletes of a key in one task the last: (key, ord, payload), all bytes. */
final class LastOfKey implements MapPartitionsFunction<Row, Row> {
  private static final long serialVersionUID = 1L;

  @Override
  public Iterator<Row> call(Iterator<Row> rows) {
    return new Shrunk<Row[]>(rows) {
      @Override
      Row[] empty() {
        return new Row[1];
      }

      @Override
      void add(Row[] kept, Row row) {
        if (kept[0] == null || Arrays.compareUnsigned(row.<byte[]>getAs(1), kept[0].<byte[]>getAs(1)) >= 0) {
          kept[0] = row;
        }
      }

      @Override
      Row row(byte[] key, Row[] kept) {
        return kept[0];
      }
    };
  }
}
