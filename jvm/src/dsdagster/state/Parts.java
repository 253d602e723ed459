package dsdagster.state;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;

/**
 * What a key has to say, part by part: a part is asked for when the one before it has been read to its end, so that the
 * rows of a key are never all in memory, and state changes between parts and not within.
 *
 * <p>Rule, of Spark 4.2: the rows of a key are read to their end, with the state being the key's, before the next key is
 * looked at; a task that stops reading commits no state.
 */
public final class Parts implements Iterator<Row> {
  private final Supplier<Iterator<Row>> more;
  private Iterator<Row> part;

  /** @param more the next part, null when there is none; not asked again then */
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
