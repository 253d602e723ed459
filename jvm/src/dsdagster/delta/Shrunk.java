package dsdagster.delta;

import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Row;

/**
 * Rows of one task, brought down to one per key before they are sent, sorted and grouped.
 *
 * <p>Rules: what comes out means the same to the operator behind it as what went in, however often a key comes out. At
 * most {@link #MOST_KEYS} keys are held, of at most {@link #MOST_BYTES} that came; then all leave. Where the first
 * {@link #SAMPLE} rows show that keys hardly repeat, nothing is held any more.
 *
 * @param <S> what is held of a key
 */
abstract class Shrunk<S> implements Iterator<Row> {
  private static final int MOST_KEYS = 1 << 16;
  private static final long MOST_BYTES = 32L << 20;
  private static final int SAMPLE = 1 << 12;
  private static final double WORTH_IT = 0.8;

  private final Iterator<Row> rows;
  private final Map<ByteBuffer, S> held = new LinkedHashMap<>();
  private Iterator<Map.Entry<ByteBuffer, S>> leaving = Collections.emptyIterator();
  private long seen;
  private boolean passes;

  /** @param rows with the key's bytes in their first column */
  Shrunk(Iterator<Row> rows) {
    this.rows = rows;
  }

  /** What is held of a key that has no row yet. */
  abstract S empty();

  /** Takes a row in. */
  abstract void add(S kept, Row row);

  /** The one row that stands for all that were taken in. */
  abstract Row row(byte[] key, S kept);

  @Override
  public boolean hasNext() {
    return leaving.hasNext() || rows.hasNext();
  }

  @Override
  public Row next() {
    if (!leaving.hasNext()) {
      if (!rows.hasNext()) {
        throw new NoSuchElementException();
      }
      if (passes) {
        Row row = rows.next();
        S alone = empty();
        add(alone, row);
        return row(row.getAs(0), alone);
      }
      gather();
    }
    Map.Entry<ByteBuffer, S> next = leaving.next();
    return row(next.getKey().array(), next.getValue());
  }

  private void gather() {
    held.clear();
    long bytes = 0;
    while (rows.hasNext() && held.size() < MOST_KEYS && bytes < MOST_BYTES && !passes) {
      Row row = rows.next();
      bytes += bytes(row);
      add(held.computeIfAbsent(ByteBuffer.wrap(row.getAs(0)), unused -> empty()), row);
      passes = ++seen == SAMPLE && held.size() > SAMPLE * WORTH_IT;
    }
    leaving = held.entrySet().iterator();
  }

  private static long bytes(Row row) {
    long found = 0;
    for (int i = 0; i < row.length(); i++) {
      found += row.get(i) instanceof byte[] bytes ? bytes.length : Long.BYTES;
    }
    return found;
  }
}
