package dsdagster.join;

import dsdagster.state.Buckets;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Emits the rows of a window in parts: as many left rows as fit into memory are joined with all right rows, then the
 * next left rows. Rows without a partner are emitted alone if the join is an outer join.
 */
final class WindowPairs {
  static final int LEFT = 0;
  static final int RIGHT = 1;
  /** Left rows in memory at once, in buckets of the usual size. */
  private static final int HELD = 128;

  /** Left rows of one key. */
  private static final class Same {
    private final List<byte[]> rows = new ArrayList<>(2);
    private boolean isMet;
  }

  private final WindowRows state;
  private final Object end;
  private final boolean[] lonely;
  private final WindowRows.Cursor lefts;
  private final long limit = (long) HELD * Buckets.usualLimit();
  private final Map<ByteBuffer, Same> held = new HashMap<>();
  private final List<byte[]> unmatchable = new ArrayList<>();
  /** Right rows with a partner, by their place. */
  private final BitSet met = new BitSet();
  private boolean isHeld;
  private boolean isOver;
  private boolean isDone;

  /** @param lonely by side: whether rows without a partner are emitted */
  WindowPairs(WindowRows state, Object end, boolean[] lonely) {
    this.state = state;
    this.end = end;
    this.lonely = lonely;
    this.lefts = state.rows(LEFT);
  }

  /** The next part; null after the last. */
  Iterator<Row> next() {
    if (isHeld) {
      isHeld = false;
      return alone();
    }
    if (!isOver) {
      hold();
      if (!held.isEmpty() || !unmatchable.isEmpty()) {
        isHeld = true;
        return held.isEmpty() ? Collections.emptyIterator() : new Meeting();
      }
    }
    if (!isDone) {
      isDone = true;
      return lonely[RIGHT] ? new Rest() : Collections.emptyIterator();
    }
    state.clear();
    return null;
  }

  private void hold() {
    held.clear();
    unmatchable.clear();
    long bytes = 0;
    while (bytes < limit) {
      if (!lefts.next()) {
        isOver = true;
        return;
      }
      if (lefts.key() == null) {
        unmatchable.add(lefts.row());
      } else {
        held.computeIfAbsent(ByteBuffer.wrap(lefts.key()), unused -> new Same()).rows.add(lefts.row());
      }
      bytes += lefts.row().length + (lefts.key() == null ? 0 : lefts.key().length);
    }
  }

  /** Left rows of this part without a partner. */
  private Iterator<Row> alone() {
    if (!lonely[LEFT]) {
      return Collections.emptyIterator();
    }
    List<byte[]> rows = unmatchable;
    held.values().stream().filter(same -> !same.isMet).forEach(same -> rows.addAll(same.rows));
    return rows.stream().map(row -> RowFactory.create(end, row, null)).iterator();
  }

  /** Pairs of every right row with the left rows of its key in this part. */
  private final class Meeting implements Iterator<Row> {
    private final WindowRows.Cursor rights = state.rows(RIGHT);
    private Iterator<byte[]> same = Collections.emptyIterator();
    private int place = -1;

    @Override
    public boolean hasNext() {
      while (!same.hasNext() && rights.next()) {
        place++;
        Same found = rights.key() == null ? null : held.get(ByteBuffer.wrap(rights.key()));
        if (found != null) {
          found.isMet = true;
          met.set(place);
          same = found.rows.iterator();
        }
      }
      return same.hasNext();
    }

    @Override
    public Row next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return RowFactory.create(end, same.next(), rights.row());
    }
  }

  /** Right rows without a partner. */
  private final class Rest implements Iterator<Row> {
    private final WindowRows.Cursor rights = state.rows(RIGHT);
    private int place = -1;
    private boolean isFound;

    @Override
    public boolean hasNext() {
      while (!isFound && rights.next()) {
        place++;
        isFound = !met.get(place);
      }
      return isFound;
    }

    @Override
    public Row next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      isFound = false;
      return RowFactory.create(end, null, rights.row());
    }
  }
}
