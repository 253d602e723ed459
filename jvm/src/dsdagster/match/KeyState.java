package dsdagster.match;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.Comparator;
import java.util.List;

/**
 * State of one key: rows that wait for the watermark, rows in order that a match may still need, the searches that
 * wait for more rows, and the alarm that is set.
 *
 * <p>Rule: all of it is one value in the state store while it is small, so a visited key costs one read and one write.
 * Its layout has a number; an unknown number is refused.
 */
final class KeyState {
  static final long NO_ALARM = Long.MAX_VALUE;
  private static final byte LAYOUT = 4;
  /** Earlier layout: all rows in one value. */
  private static final byte WITHOUT_BUCKETS = 1;
  /** Earlier layout: waiting rows in buckets, the rest in one value. */
  private static final byte WAITING_IN_BUCKETS = 2;
  /** Earlier layout: the whole path of a search in one value. */
  private static final byte WITHOUT_CHUNKS = 3;
  private static final String WHAT = "state of a pattern";
  private static final int WAITING = 0;
  private static final int ROWS = 1;
  private static final int SEARCHES = 2;
  private static final int CHUNKS = 3;

  /**
   * Rows that wait for the watermark, in the order in which they will be searched, with their position in the source.
   */
  final TimedRows waiting;
  /** Rows from the first one that a search needs. */
  final MatchRows rows;
  /** Open searches, by the number of their first row instead of a time; the payload is {@link Way#written}. */
  final TimedRows searches;
  /** The older part of the path of the only search, if searches do not overlap; see {@link Way}. */
  final TimedRows chunks;
  long alarm;

  private KeyState(TimedRows waiting, MatchRows rows, TimedRows searches, TimedRows chunks, long alarm) {
    this.waiting = waiting;
    this.rows = rows;
    this.searches = searches;
    this.chunks = chunks;
    this.alarm = alarm;
  }

  boolean isEmpty() {
    return waiting.isEmpty() && rows.isEmpty() && searches.isEmpty() && alarm == NO_ALARM;
  }

  /** Sorts new rows and adds them to the waiting rows. */
  void await(List<TimedRow> arrived, Comparator<TimedRow> order) {
    arrived.sort(order);
    arrived.forEach(waiting::add);
  }

  /** Moves the next waiting row to the rows that are searched. */
  void takeNext() {
    TimedRow row = waiting.removeFirst();
    rows.add(row.ts(), row.payload());
  }

  /** Deletes all searches with their rows. */
  void forget() {
    endSearches();
    trim();
  }

  void endSearches() {
    searches.clear();
    chunks.clear();
  }

  /** Deletes the rows before the first search. */
  void trim() {
    rows.forgetBefore(searches.isEmpty() ? rows.end() : searches.firstTime());
  }

  /** @param order order of the waiting rows */
  static KeyState decode(byte[] bytes, Buckets buckets, Comparator<TimedRow> order) {
    if (bytes == null) {
      TimedRows waiting = new TimedRows(buckets, WAITING, order);
      MatchRows rows = new MatchRows(empty(buckets, ROWS), 0);
      return new KeyState(waiting, rows, empty(buckets, SEARCHES), empty(buckets, CHUNKS), NO_ALARM);
    }
    boolean isEarlier = bytes[0] == WITHOUT_BUCKETS || bytes[0] == WAITING_IN_BUCKETS;
    boolean isWhole = isEarlier || bytes[0] == WITHOUT_CHUNKS;
    ByteBuffer in = Layout.open(bytes, isWhole ? bytes[0] : LAYOUT, WHAT);
    long alarm = in.getLong();
    TimedRows waiting = TimedRows.get(in, buckets, WAITING, order);
    if (isEarlier) {
      MatchRows rows = earlierRows(in, buckets);
      return new KeyState(waiting, rows, earlierSearches(in, buckets), empty(buckets, CHUNKS), alarm);
    }
    long first = in.getLong();
    MatchRows rows = new MatchRows(TimedRows.get(in, buckets, ROWS, TimedRow.BY_TIME), first);
    TimedRows searches = TimedRows.get(in, buckets, SEARCHES, TimedRow.BY_TIME);
    TimedRows chunks = isWhole ? empty(buckets, CHUNKS) : TimedRows.get(in, buckets, CHUNKS, TimedRow.BY_TIME);
    return new KeyState(waiting, rows, searches, chunks, alarm);
  }

  private static TimedRows empty(Buckets buckets, int list) {
    return new TimedRows(buckets, list, TimedRow.BY_TIME);
  }

  private static MatchRows earlierRows(ByteBuffer in, Buckets buckets) {
    MatchRows found = new MatchRows(empty(buckets, ROWS), 0);
    for (int left = in.getInt(); left > 0; left--) {
      found.add(in.getLong(), Layout.get(in));
    }
    return found;
  }

  private static TimedRows earlierSearches(ByteBuffer in, Buckets buckets) {
    TimedRows found = empty(buckets, SEARCHES);
    for (int left = in.getInt(); left > 0; left--) {
      int start = in.getInt();
      byte[] way = StoredWay.ofSteps(in, in.getInt());
      found.add(new TimedRow(start, null, way));
    }
    return found;
  }

  /** The state as bytes; also writes the buckets. */
  byte[] encode() {
    long lists = waiting.encodedSize() + rows.list().encodedSize() + searches.encodedSize() + chunks.encodedSize();
    ByteBuffer out = Layout.create(1 + 2 * Long.BYTES + lists, LAYOUT, WHAT).putLong(alarm);
    waiting.put(out);
    rows.list().put(out.putLong(rows.first()));
    searches.put(out);
    chunks.put(out);
    return out.array();
  }
}
