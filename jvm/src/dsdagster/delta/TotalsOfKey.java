package dsdagster.delta;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/** Of the weighted rows of a group in one task their totals: (key, arguments …, w) → (key, bytes of a {@link Group}). */
final class TotalsOfKey implements MapPartitionsFunction<Row, Row> {
  private static final long serialVersionUID = 1L;

  private final ArrayList<Call> calls;

  TotalsOfKey(List<Call> calls) {
    this.calls = new ArrayList<>(calls);
  }

  /** Whether all a group keeps are sums, which may be made in parts. */
  static boolean suits(List<Call> calls, boolean appendOnly) {
    return calls.stream().noneMatch(call -> call.function().isExtreme() || call.needsValues(appendOnly));
  }

  @Override
  public Iterator<Row> call(Iterator<Row> rows) {
    return new Shrunk<Group>(rows) {
      @Override
      Group empty() {
        return Group.empty(calls);
      }

      @Override
      void add(Group kept, Row row) {
        kept.add(calls, row, 1, row.getLong(row.length() - 1));
      }

      @Override
      Row row(byte[] key, Group kept) {
        return RowFactory.create(key, kept.encode(calls));
      }
    };
  }
}
