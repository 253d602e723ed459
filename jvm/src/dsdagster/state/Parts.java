package dsdagster.state;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;

/**
 * The result rows of a key, part by part: a part is requested when the previous part has been read to its end, so that
 * the rows of a key are never all in memory, and state changes only between parts.
 *
 * <p>Rule, of Spark 4.2: the rows of a key are read to their end, with the state of that key, before the next key is
 * visited; a task that stops reading commits no state.
 */
public final class Parts implements Iterator<Row> {
  private final Supplier<Iterator<Row>> more;
  private Iterator<Row> part;

  /** @param more gives the next part; null if there is none, and is then not called again */
  public Parts(Supplier<Iterator<Row>> more) {
    this.more = more;
    this.part = more.get();
  }

  @Override
  public boolean hasNext() {
    while (part != null && !part.hasNext()) {
      part = more.get();
    }
    return part != null;
  }

  @Override
  public Row next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return part.next();
  }
}
