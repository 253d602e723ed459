package dsdagster.delta.over;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * State of one partition: rows that wait for the watermark, ordered by time and then by their bytes; the rows of a
 * bounded frame; the alarm that is set; the time of the last emitted row.
 *
 * <p>Rule: all of it is one value in the state store while it is small, so a visited key costs one read and one write.
 * Its layout has a number; an unknown number is refused.
 */
final class OverState {
  static final long NO_ALARM = Long.MAX_VALUE;
  static final long NO_ROW = Long.MIN_VALUE;
  /** Numbers of the lists of rows; the lists of extremes follow the frame's list. */
  private static final int WAITING = 0;
  static final int FRAME = 1;
  private static final byte LAYOUT = 3;
  /** Earlier layout, whose frames have rows only. */
  private static final byte WITHOUT_TOTALS = 2;
  private static final String WHAT = "state of running aggregates";

  /** Waiting rows, each with the arguments of the calls. */
  TimedRows waiting;
  final Frame frame;
  long alarm = NO_ALARM;
  long passed = NO_ROW;

  /** @param frame an empty frame */
  OverState(Frame frame, Buckets buckets) {
    this.frame = frame;
    this.waiting = new TimedRows(buckets, WAITING, TimedRow.BY_PAYLOAD);
  }

  boolean isEmpty() {
    return waiting.isEmpty() && frame.isEmpty() && alarm == NO_ALARM;
  }

  /** Sorts new rows and adds them to the waiting rows. */
  void await(List<TimedRow> arrived) {
    arrived.sort(TimedRow.BY_PAYLOAD);
    arrived.forEach(waiting::add);
  }

  /** Reads the bytes of {@link #encode}; null if there is no state. */
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

  /** The state as bytes; also writes the buckets. */
  byte[] encode() {
    long size = 1 + 2 * Long.BYTES + waiting.encodedSize() + frame.encodedSize();
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT).putLong(alarm).putLong(passed);
    waiting.put(out);
    frame.put(out);
    return out.array();
  }
}
