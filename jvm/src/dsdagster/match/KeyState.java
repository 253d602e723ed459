package dsdagster.match;

import dsdagster.Layout;
import dsdagster.Waiting;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * State of one key: rows that wait for time, rows in order that a match may still need, the searches that wait for more
 * rows, and the alarm that is set.
 *
 * <p>Rule: all of it is one value in the state store. The layout carries a number; an unknown one is refused.
 */
final class KeyState {
  static final long NO_ALARM = Long.MAX_VALUE;
  private static final byte LAYOUT = 1;
  private static final String WHAT = "state of a pattern";

  /** In the order in which they will be looked at. */
  final ArrayList<MatchRow> waiting;
  /** From the first row on that a search needs. */
  final ArrayList<MatchRow> rows;
  /** By the row they begin at. */
  final ArrayList<Search> searches;
  long alarm;

  private KeyState(ArrayList<MatchRow> waiting, ArrayList<MatchRow> rows, ArrayList<Search> searches, long alarm) {
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

  static KeyState empty() {
    return new KeyState(new ArrayList<>(), new ArrayList<>(), new ArrayList<>(), NO_ALARM);
  }

  boolean isEmpty() {
    return waiting.isEmpty() && rows.isEmpty() && searches.isEmpty() && alarm == NO_ALARM;
  }

  /** Adds rows that have just come. */
  void await(List<MatchRow> arrived, Comparator<MatchRow> order) {
    waiting.addAll(arrived);
    waiting.sort(order);
  }

  /** Removes and returns the waiting rows before {@code time}. */
  List<MatchRow> takeDue(long time) {
    return Waiting.takeBefore(waiting, row -> row.ts, time);
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

  static KeyState decode(byte[] bytes) {
    if (bytes == null) {
      return empty();
    }
    ByteBuffer in = Layout.open(bytes, LAYOUT, WHAT);
    long alarm = in.getLong();
    ArrayList<MatchRow> waiting = rows(in, true);
    ArrayList<MatchRow> rows = rows(in, false);
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

  private static ArrayList<MatchRow> rows(ByteBuffer in, boolean ordered) {
    int count = in.getInt();
    ArrayList<MatchRow> found = new ArrayList<>(count + 4);
    for (int i = 0; i < count; i++) {
      long ts = in.getLong();
      byte[] order = ordered ? Layout.get(in) : null;
      found.add(new MatchRow(ts, order, Layout.get(in)));
    }
    return found;
  }

  byte[] encode() {
    long size = 1 + Long.BYTES + size(waiting, true) + size(rows, false) + size(searches);
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT);
    out.putLong(alarm);
    put(out, waiting, true);
    put(out, rows, false);
    out.putInt(searches.size());
    for (Search search : searches) {
      out.putInt(search.start).putInt(search.choices.length);
      for (short choice : search.choices) {
        out.putShort(choice);
      }
    }
    return out.array();
  }

  private static long size(List<Search> searches) {
    long size = Integer.BYTES;
    for (Search search : searches) {
      size += 2 * Integer.BYTES + Short.BYTES * search.choices.length;
    }
    return size;
  }

  private static long size(List<MatchRow> rows, boolean ordered) {
    long size = Integer.BYTES;
    for (MatchRow row : rows) {
      size += Long.BYTES + Layout.size(row.payload) + (ordered ? Layout.size(row.order) : 0);
    }
    return size;
  }

  private static void put(ByteBuffer out, List<MatchRow> rows, boolean ordered) {
    out.putInt(rows.size());
    for (MatchRow row : rows) {
      out.putLong(row.ts);
      if (ordered) {
        Layout.put(out, row.order);
      }
      Layout.put(out, row.payload);
    }
  }
}
