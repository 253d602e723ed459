package dsdagster.delta.over;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * State of one partition: rows that wait for time, in its order, those of one time in the order of their bytes; the rows
 * of a bounded frame; the alarm that is set; the time of the last row that has left.
 *
 * <p>Rule: all of it is one value in the state store while it is small, so a touched key costs one read and one write. The
 * layout carries a number; an unknown one is refused.
 */
final class OverState {
  static final long NO_ALARM = Long.MAX_VALUE;
  static final long NO_ROW = Long.MIN_VALUE;
  /** Numbers of lists; the lists of extremes follow the frame's. */
  private static final int WAITING = 0;
  static final int FRAME = 1;
  private static final byte LAYOUT = 3;
  /** Frames of rows alone. */
  private static final byte WITHOUT_TOTALS = 2;
  private static final String WHAT = "state of running aggregates";

  /** Each row with the arguments of the calls. */
  TimedRows waiting;
  final Frame frame;
  long alarm = NO_ALARM;
  long passed = NO_ROW;

  /** @param frame an empty one */
  OverState(Frame frame, Buckets buckets) {
    this.frame = frame;
    this.waiting = new TimedRows(buckets, WAITING, TimedRow.BY_PAYLOAD);
  }

  boolean isEmpty() {
    return waiting.isEmpty() && frame.isEmpty() && alarm == NO_ALARM;
  }

  /** Adds rows that have just come; sorts them. */
  void await(List<TimedRow> arrived) {
    arrived.sort(TimedRow.BY_PAYLOAD);
    arrived.forEach(waiting::add);
  }

  /** Reads what {@link #encode} wrote; null for nothing. */
  void decode(byte[] bytes, Buckets buckets) {
    if (bytes == null) {
      return;
    }
    boolean hasTotals = bytes[0] != WITHOUT_TOTALS;
    ByteBuffer in = Layout.open(bytes, hasTotals ? LAYOUT : WITHOUT_TOTALS, WHAT);
    alarm = in.getLong();
    passed = in.getLong();
    waiting = TimedRows.get(in, buckets, WAITING, TimedRow.BY_PAYLOAD);
    frame.get(in, hasTotals);
  }

  /** Writes the buckets too. */
  byte[] encode() {
    long size = 1 + 2 * Long.BYTES + waiting.encodedSize() + frame.encodedSize();
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT).putLong(alarm).putLong(passed);
    waiting.put(out);
    frame.put(out);
    return out.array();
  }
}
