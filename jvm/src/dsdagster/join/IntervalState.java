package dsdagster.join;

import dsdagster.Layout;
import dsdagster.Waiting;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * State of one key: the rows of both sides that something can still join, in the order of their times, and the alarm
 * that is set.
 *
 * <p>Rule: all of it is one value in the state store, so a touched key costs one read and one write. The layout carries
 * a number; an unknown one is refused.
 */
final class IntervalState {
  static final long NO_ALARM = Long.MAX_VALUE;
  static final long NO_TIME = Long.MAX_VALUE;
  private static final byte LAYOUT = 1;
  private static final String WHAT = "state of an interval join";

  /** A row, and whether it has met another. */
  static final class Kept {
    final long ts;
    final byte[] payload;
    boolean isMatched;

    Kept(long ts, byte[] payload) {
      this.ts = ts;
      this.payload = payload;
    }
  }

  final List<List<Kept>> sides;
  long alarm;

  private IntervalState(List<Kept> left, List<Kept> right, long alarm) {
    this.sides = List.of(left, right);
    this.alarm = alarm;
  }

  static IntervalState decode(byte[] bytes) {
    if (bytes == null) {
      return new IntervalState(new ArrayList<>(), new ArrayList<>(), NO_ALARM);
    }
    ByteBuffer in = Layout.open(bytes, LAYOUT, WHAT);
    long alarm = in.getLong();
    List<Kept> left = rows(in);
    return new IntervalState(left, rows(in), alarm);
  }

  private static List<Kept> rows(ByteBuffer in) {
    int count = in.getInt();
    List<Kept> found = new ArrayList<>(count + 4);
    for (int i = 0; i < count; i++) {
      long ts = in.getLong();
      boolean isMatched = in.get() != 0;
      Kept row = new Kept(ts, Layout.get(in));
      row.isMatched = isMatched;
      found.add(row);
    }
    return found;
  }

  byte[] encode() {
    long size = 1 + Long.BYTES;
    for (List<Kept> side : sides) {
      size += Integer.BYTES;
      for (Kept row : side) {
        size += Long.BYTES + 1 + Layout.size(row.payload);
      }
    }
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT);
    out.putLong(alarm);
    for (List<Kept> side : sides) {
      out.putInt(side.size());
      for (Kept row : side) {
        out.putLong(row.ts).put((byte) (row.isMatched ? 1 : 0));
        Layout.put(out, row.payload);
      }
    }
    return out.array();
  }

  boolean isEmpty() {
    return sides.get(0).isEmpty() && sides.get(1).isEmpty();
  }

  /** Adds a row behind those of its time. */
  void keep(int side, Kept row) {
    List<Kept> rows = sides.get(side);
    rows.add(first(rows, row.ts + 1), row);
  }

  /** Place of the first row that is not before a time. */
  static int first(List<Kept> rows, long ts) {
    int from = 0;
    int to = rows.size();
    while (from < to) {
      int middle = (from + to) >>> 1;
      if (rows.get(middle).ts < ts) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from;
  }

  /** Removes and returns the rows of a side up to a time. */
  List<Kept> takeUntil(int side, long ts) {
    return Waiting.takeBefore(sides.get(side), row -> row.ts, ts + 1);
  }

  /** Time of the oldest row; {@link #NO_TIME} without one. */
  long firstTime() {
    return sides.stream().filter(side -> !side.isEmpty()).mapToLong(side -> side.get(0).ts).min().orElse(NO_TIME);
  }
}
