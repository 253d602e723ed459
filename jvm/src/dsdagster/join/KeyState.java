package dsdagster.join;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * State of one key: its versions (at most one per time; a delete has no row) and the stream rows that wait for the
 * watermark, both in the order of time and position, and the alarm that is set.
 *
 * <p>Rule: all of it is one value in the state store while it is small, so a visited key costs one read and one write.
 * Its layout has a number; an unknown number is refused.
 */
final class KeyState {
  static final long NO_ALARM = Long.MAX_VALUE;
  private static final int VERSIONS = 0;
  private static final int WAITING = 1;
  private static final byte LAYOUT = 2;
  /** Earlier layout: all rows in one value. */
  private static final byte WITHOUT_BUCKETS = 1;
  private static final String WHAT = "state of a temporal join";

  final TimedRows versions;
  final TimedRows waiting;
  long alarm = NO_ALARM;

  private KeyState(TimedRows versions, TimedRows waiting) {
    this.versions = versions;
    this.waiting = waiting;
  }

  boolean isEmpty() {
    return versions.isEmpty() && waiting.isEmpty() && alarm == NO_ALARM;
  }

  static KeyState decode(byte[] bytes, Buckets buckets) {
    if (bytes == null) {
      TimedRows versions = new TimedRows(buckets, VERSIONS, TimedRow.BY_ORDER);
      return new KeyState(versions, new TimedRows(buckets, WAITING, TimedRow.BY_ORDER));
    }
    ByteBuffer in = Layout.open(bytes, bytes[0] == WITHOUT_BUCKETS ? WITHOUT_BUCKETS : LAYOUT, WHAT);
    long alarm = in.getLong();
    TimedRows versions = TimedRows.get(in, buckets, VERSIONS, TimedRow.BY_ORDER);
    KeyState found = new KeyState(versions, TimedRows.get(in, buckets, WAITING, TimedRow.BY_ORDER));
    found.alarm = alarm;
    return found;
  }

  /** The state as bytes; also writes the buckets. */
  byte[] encode() {
    long size = 1 + Long.BYTES + versions.encodedSize() + waiting.encodedSize();
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT).putLong(alarm);
    versions.put(out);
    waiting.put(out);
    return out.array();
  }

  static boolean isDelete(TimedRow version) {
    return version.payload() == null;
  }

  /** Adds a version in its place; of two versions with equal times, the one with the later position is kept. */
  void addVersion(TimedRow version) {
    TimedRow before = versions.lastUntil(version.ts());
    if (before == null || before.ts() != version.ts()) {
      versions.add(version);
    } else if (TimedRow.BY_ORDER.compare(before, version) <= 0) {
      versions.replaceLastUntil(version);
    }
  }

  /** The version valid at {@code ts}; null if there is none or it is a delete. */
  TimedRow versionAt(long ts) {
    TimedRow version = versions.lastUntil(ts);
    return version == null || isDelete(version) ? null : version;
  }

  /** Sorts new stream rows and adds them to the waiting rows. */
  void await(List<TimedRow> rows) {
    rows.sort(TimedRow.BY_ORDER);
    rows.forEach(waiting::add);
  }

  /**
   * Forgets versions that ended before {@code horizon - retention}, and of the final versions (before {@code horizon})
   * all but the newest {@code most}. The newest final version is kept, unless it is a delete of that age. Returns
   * whether any version was forgotten.
   */
  boolean prune(long horizon, long retention, int most) {
    long last = versions.countBefore(horizon) - 1;
    if (last < 0) {
      return false;
    }
    long cut = horizon < Long.MIN_VALUE + retention ? Long.MIN_VALUE : horizon - retention;
    long ended = versions.countBefore(cut + 1) - 1;
    long drop = Math.max(0, Math.min(last, Math.max(ended, last - most + 1)));
    TimedRow first = versions.get(drop);
    if (isDelete(first) && first.ts() <= cut) {
      drop++;
    }
    versions.removeFirst(drop);
    return drop > 0;
  }
}
