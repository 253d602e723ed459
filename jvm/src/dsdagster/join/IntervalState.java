package dsdagster.join;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * State of one key: the rows of both sides that can still be joined, in the order of their times, and the alarm that
 * is set. In outer joins a row that had a partner has the flag {@link #MATCHED}.
 *
 * <p>Rule: all of it is one value in the state store while it is small, so a visited key costs one read and one write.
 * Its layout has a number; an unknown number is refused.
 */
final class IntervalState {
  static final long NO_ALARM = Long.MAX_VALUE;
  static final byte[] MATCHED = new byte[0];
  private static final byte LAYOUT = 2;
  /** Earlier layout: all rows in one value, each with a byte for whether it had a partner. */
  private static final byte FLAGGED = 1;
  private static final String WHAT = "state of an interval join";

  final List<TimedRows> sides;
  long alarm = NO_ALARM;

  private IntervalState(TimedRows left, TimedRows right) {
    this.sides = List.of(left, right);
  }

  static IntervalState decode(byte[] bytes, Buckets buckets) {
    if (bytes == null) {
      return new IntervalState(empty(buckets, 0), empty(buckets, 1));
    }
    boolean isFlagged = bytes[0] == FLAGGED;
    ByteBuffer in = Layout.open(bytes, isFlagged ? FLAGGED : LAYOUT, WHAT);
    long alarm = in.getLong();
    TimedRows left = isFlagged ? flagged(in, buckets, 0) : TimedRows.get(in, buckets, 0, TimedRow.BY_TIME);
    TimedRows right = isFlagged ? flagged(in, buckets, 1) : TimedRows.get(in, buckets, 1, TimedRow.BY_TIME);
    IntervalState found = new IntervalState(left, right);
    found.alarm = alarm;
    return found;
  }

  private static TimedRows empty(Buckets buckets, int side) {
    return new TimedRows(buckets, side, TimedRow.BY_TIME);
  }

  private static TimedRows flagged(ByteBuffer in, Buckets buckets, int side) {
    TimedRows found = empty(buckets, side);
    for (int left = in.getInt(); left > 0; left--) {
      long ts = in.getLong();
      byte[] isMatched = in.get() == 0 ? null : MATCHED;
      found.add(new TimedRow(ts, isMatched, Layout.get(in)));
    }
    return found;
  }

  /** The state as bytes; also writes the buckets. */
  byte[] encode() {
    long size = 1 + Long.BYTES;
    for (TimedRows side : sides) {
      size += side.encodedSize();
    }
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT).putLong(alarm);
    sides.forEach(side -> side.put(out));
    return out.array();
  }

  boolean isEmpty() {
    return sides.get(0).isEmpty() && sides.get(1).isEmpty();
  }

  /** Time of the oldest row; {@link TimedRows#NO_TIME} without one. */
  long firstTime() {
    return Math.min(sides.get(0).firstTime(), sides.get(1).firstTime());
  }
}
