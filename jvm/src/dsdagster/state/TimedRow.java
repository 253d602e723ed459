package dsdagster.state;

import dsdagster.Layout;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Comparator;

/**
 * A row that an operator keeps for a key.
 *
 * @param ts event time, microseconds
 * @param order further data of the operator, for instance the row's position in the source; may be null
 * @param payload packed row; may be null
 */
public record TimedRow(long ts, byte[] order, byte[] payload) {
  /** By time only: rows with equal times stay in the order of arrival. */
  public static final Comparator<TimedRow> BY_TIME = Comparator.comparingLong(TimedRow::ts);
  /** By time, then {@link #order}, byte by byte. */
  public static final Comparator<TimedRow> BY_ORDER = BY_TIME.thenComparing(TimedRow::order, Arrays::compareUnsigned);
  /** By time, then {@link #payload}, byte by byte. */
  public static final Comparator<TimedRow> BY_PAYLOAD =
      BY_TIME.thenComparing(TimedRow::payload, Arrays::compareUnsigned);

  long size() {
    return Long.BYTES + Layout.size(order) + Layout.size(payload);
  }

  void put(ByteBuffer out) {
    out.putLong(ts);
    Layout.put(out, order);
    Layout.put(out, payload);
  }

  static TimedRow get(ByteBuffer in) {
    return new TimedRow(in.getLong(), Layout.get(in), Layout.get(in));
  }
}
