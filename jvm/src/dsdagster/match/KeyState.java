package dsdagster.match;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * State of one key: rows that wait for time, rows in order that a match may still need, the searches that wait for more
 * rows, and the alarm that is set.
 *
 * <p>Rule: all of it is one value in the state store, but for rows that wait where they are many. The layout carries a
 * number; an unknown one is refused.
 */
final class KeyState {
  static final long NO_ALARM = Long.MAX_VALUE;
  private static final byte LAYOUT = 2;
  /** All rows in one value. */
  private static final byte WITHOUT_BUCKETS = 1;
  private static final String WHAT = "state of a pattern";
  private static final int WAITING = 0;

  /** In the order in which they will be looked at; with their position in the source. */
  final TimedRows waiting;
  /** From the first row on that a search needs. */
  final ArrayList<MatchRow> rows;
  /** By the row they begin at. */
  final ArrayList<Search> searches;
  long alarm;

  private KeyState(TimedRows waiting, ArrayList<MatchRow> rows, ArrayList<Search> searches, long alarm) {
    this.waiting = waiting;
    this.rows = rows;
    this.searches = searches;
    this.alarm = alarm;
  }

  /**
   * A search that has not ended: the row it begins at, and which step of each state it is at. What stands in front of
   * these steps has failed, what stands behind them has not been tried.
   */
  static final class Search {
    int start;
    short[] choices;

    Search(int start, short[] choices) {
      this.start = start;
      this.choices = choices;
    }

    Search(int start) {
      this(start, new short[0]);
    }
  }

  boolean isEmpty() {
    return waiting.isEmpty() && rows.isEmpty() && searches.isEmpty() && alarm == NO_ALARM;
  }

  /** Adds rows that have just come; sorts them. */
  void await(List<TimedRow> arrived, Comparator<TimedRow> order) {
    arrived.sort(order);
    waiting.addAll(arrived);
  }

  /** Removes and returns the waiting rows before {@code time}. */
  List<MatchRow> takeDue(long time) {
    List<MatchRow> due = new ArrayList<>();
    while (waiting.firstTime() < time) {
      TimedRow row = waiting.removeFirst();
      due.add(new MatchRow(row.ts(), row.payload()));
    }
    return due;
  }

  /** Forgets all searches with their rows. */
  void forget() {
    searches.clear();
    rows.clear();
  }

  /** Forgets the rows in front of the first search. */
  void trim() {
    int first = searches.isEmpty() ? rows.size() : searches.get(0).start;
    if (first > 0) {
      rows.subList(0, first).clear();
      searches.forEach(search -> search.start -= first);
    }
  }

  /** @param order of the rows that wait */
  static KeyState decode(byte[] bytes, Buckets buckets, Comparator<TimedRow> order) {
    if (bytes == null) {
      TimedRows waiting = new TimedRows(buckets, WAITING, order);
      return new KeyState(waiting, new ArrayList<>(), new ArrayList<>(), NO_ALARM);
    }
    ByteBuffer in = Layout.open(bytes, bytes[0] == WITHOUT_BUCKETS ? WITHOUT_BUCKETS : LAYOUT, WHAT);
    long alarm = in.getLong();
    TimedRows waiting = TimedRows.get(in, buckets, WAITING, order);
    ArrayList<MatchRow> rows = rows(in);
    int count = in.getInt();
    ArrayList<Search> searches = new ArrayList<>(count + 1);
    for (int i = 0; i < count; i++) {
      int start = in.getInt();
      short[] choices = new short[in.getInt()];
      for (int j = 0; j < choices.length; j++) {
        choices[j] = in.getShort();
      }
      searches.add(new Search(start, choices));
    }
    return new KeyState(waiting, rows, searches, alarm);
  }

  private static ArrayList<MatchRow> rows(ByteBuffer in) {
    int count = in.getInt();
    ArrayList<MatchRow> found = new ArrayList<>(count + 4);
    for (int i = 0; i < count; i++) {
      found.add(new MatchRow(in.getLong(), Layout.get(in)));
    }
    return found;
  }

  /** Writes the buckets too. */
  byte[] encode() {
    long size = 1 + Long.BYTES + waiting.encodedSize() + sizeOfRows() + sizeOfSearches();
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT);
    out.putLong(alarm);
    waiting.put(out);
    out.putInt(rows.size());
    for (MatchRow row : rows) {
      Layout.put(out.putLong(row.ts), row.payload);
    }
    out.putInt(searches.size());
    for (Search search : searches) {
      out.putInt(search.start).putInt(search.choices.length);
      for (short choice : search.choices) {
        out.putShort(choice);
      }
    }
    return out.array();
  }

  private long sizeOfSearches() {
    long size = Integer.BYTES;
    for (Search search : searches) {
      size += 2 * Integer.BYTES + (long) Short.BYTES * search.choices.length;
    }
    return size;
  }

  private long sizeOfRows() {
    long size = Integer.BYTES;
    for (MatchRow row : rows) {
      size += Long.BYTES + Layout.size(row.payload);
    }
    return size;
  }
}
