package dsdagster.match;

import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;

/**
 * The rows of one key that a search may still need, by number, counted from the key's first row. The most recently used
 * rows are cached.
 */
final class MatchRows {
  /** Largest number of cached rows, a power of two. */
  private static final int MOST_NEAR = 1024;

  private final TimedRows rows;
  private long first;
  private MatchRow[] near = new MatchRow[4];

  /** @param first number of the first of these rows */
  MatchRows(TimedRows rows, long first) {
    this.rows = rows;
    this.first = first;
  }

  /** The rows for storing, without {@link #first}. */
  TimedRows list() {
    return rows;
  }

  /** Number of the first row. */
  long first() {
    return first;
  }

  /** Number after the last row's. */
  long end() {
    return first + rows.size();
  }

  boolean isEmpty() {
    return rows.isEmpty();
  }

  long firstTime() {
    return rows.firstTime();
  }

  /** Time of the last row. */
  long lastTime() {
    return rows.lastTime();
  }

  /** Time of a row; the time of the first row is known without reading it. */
  long time(long number) {
    return number == first ? rows.firstTime() : get(number).ts;
  }

  void add(long ts, byte[] payload) {
    rows.add(new TimedRow(ts, null, payload));
  }

  MatchRow get(long number) {
    MatchRow found = near[(int) number & near.length - 1];
    return found != null && found.number == number ? found : read(number);
  }

  private MatchRow read(long number) {
    if (near.length < Math.min(rows.size(), MOST_NEAR)) {
      near = new MatchRow[(int) Math.min(MOST_NEAR, 2 * Long.highestOneBit(rows.size()))];
    }
    TimedRow row = rows.get(number - first);
    MatchRow found = new MatchRow(number, row.ts(), row.payload());
    near[(int) number & near.length - 1] = found;
    return found;
  }

  /** Forgets the rows before a number. */
  void forgetBefore(long number) {
    if (number > first) {
      rows.removeFirst(number - first);
      first = number;
    }
  }
}
