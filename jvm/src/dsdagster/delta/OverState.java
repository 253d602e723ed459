package dsdagster.delta;

import dsdagster.Layout;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * State of one partition: rows that wait for time, in its order, those of one time in the order of their bytes; the rows
 * of a bounded frame; the alarm that is set; the time of the last row that has left.
 *
 * <p>Rule: all of it is one value in the state store, so a touched key costs one read and one write. The layout carries
 * a number; an unknown one is refused.
 */
final class OverState {
  static final long NO_ALARM = Long.MAX_VALUE;
  static final long NO_ROW = Long.MIN_VALUE;
  private static final byte LAYOUT = 2;
  private static final String WHAT = "state of running aggregates";

  /**
   * A row on its way through a frame.
   *
   * @param ts event time, microseconds
   * @param arguments packed arguments of the calls
   * @param row packed row; null when it has left and is only part of a frame
   */
  record Passing(long ts, byte[] arguments, byte[] row) {
    private static final Comparator<Passing> ORDER =
        Comparator.comparingLong(Passing::ts).thenComparing(Passing::row, Arrays::compareUnsigned);
  }

  final List<Passing> waiting;
  List<Passing> frame;
  long alarm;
  long passed;

  private OverState(List<Passing> waiting, List<Passing> frame, long alarm, long passed) {
    this.waiting = waiting;
    this.frame = frame;
    this.alarm = alarm;
    this.passed = passed;
  }

  boolean isEmpty() {
    return waiting.isEmpty() && frame.isEmpty() && alarm == NO_ALARM;
  }

  /** Adds rows that have just come. */
  void await(List<Passing> arrived) {
    waiting.addAll(arrived);
    waiting.sort(Passing.ORDER);
  }

  static OverState decode(byte[] bytes) {
    if (bytes == null) {
      return new OverState(new ArrayList<>(), List.of(), NO_ALARM, NO_ROW);
    }
    ByteBuffer in = Layout.open(bytes, LAYOUT, WHAT);
    long alarm = in.getLong();
    long passed = in.getLong();
    List<Passing> waiting = rows(in);
    return new OverState(waiting, rows(in), alarm, passed);
  }

  private static List<Passing> rows(ByteBuffer in) {
    int count = in.getInt();
    List<Passing> found = new ArrayList<>(count + 4);
    for (int i = 0; i < count; i++) {
      found.add(new Passing(in.getLong(), Layout.get(in), Layout.get(in)));
    }
    return found;
  }

  byte[] encode() {
    ByteBuffer out = Layout.create(1 + 2 * Long.BYTES + size(waiting) + size(frame), LAYOUT, WHAT);
    out.putLong(alarm).putLong(passed);
    put(out, waiting);
    put(out, frame);
    return out.array();
  }

  private static long size(List<Passing> rows) {
    long size = Integer.BYTES;
    for (Passing row : rows) {
      size += Long.BYTES + Layout.size(row.arguments()) + Layout.size(row.row());
    }
    return size;
  }

  private static void put(ByteBuffer out, List<Passing> rows) {
    out.putInt(rows.size());
    for (Passing row : rows) {
      out.putLong(row.ts());
      Layout.put(out, row.arguments());
      Layout.put(out, row.row());
    }
  }
}
