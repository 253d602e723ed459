package dsdagster.join;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * State of one window and key: the rows of both sides, in the order in which they came.
 *
 * <p>Rule: all of it is one value in the state store while it is small, so a touched key costs one read and one write. The
 * layout carries a number; an unknown one is refused.
 */
final class WindowState {
  private static final byte LAYOUT = 1;
  private static final String WHAT = "state of a window join";
  /** Rows of a side have no order but that of their coming. */
  private static final long NO_TIME = 0;

  final List<TimedRows> sides;

  private WindowState(TimedRows left, TimedRows right) {
    this.sides = List.of(left, right);
  }

  static WindowState decode(byte[] bytes, Buckets buckets) {
    if (bytes == null) {
      return new WindowState(
          new TimedRows(buckets, 0, TimedRow.BY_TIME), new TimedRows(buckets, 1, TimedRow.BY_TIME));
    }
    ByteBuffer in = Layout.open(bytes, LAYOUT, WHAT);
    TimedRows left = TimedRows.get(in, buckets, 0, TimedRow.BY_TIME);
    return new WindowState(left, TimedRows.get(in, buckets, 1, TimedRow.BY_TIME));
  }

  void add(int side, byte[] payload) {
    sides.get(side).add(new TimedRow(NO_TIME, null, payload));
  }

  /** Writes the buckets too. */
  byte[] encode() {
    long size = 1;
    for (TimedRows side : sides) {
      size += side.encodedSize();
    }
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT);
    sides.forEach(side -> side.put(out));
    return out.array();
  }
}
