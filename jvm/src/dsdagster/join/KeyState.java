package dsdagster.join;

import dsdagster.Layout;
import dsdagster.Waiting;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * State of one key: its versions (at most one per time) and the stream rows that wait for time, both in
 * {@link Entry#ORDER}, and the alarm that is set.
 *
 * <p>Rule: all of it is one value in the state store, so a touched key costs one read and one write. The layout carries
 * a number; an unknown one is refused.
 */
final class KeyState {
  static final long NO_ALARM = Long.MAX_VALUE;
  private static final byte LAYOUT = 1;
  private static final String WHAT = "state of a temporal join";
  private static final int HEADER = 1 + Long.BYTES + 2 * Integer.BYTES;

  final ArrayList<Entry> versions;
  final ArrayList<Entry> waiting;
  long alarm;

  private KeyState(ArrayList<Entry> versions, ArrayList<Entry> waiting, long alarm) {
    this.versions = versions;
    this.waiting = waiting;
    this.alarm = alarm;
  }

  static KeyState empty() {
    return new KeyState(new ArrayList<>(2), new ArrayList<>(), NO_ALARM);
  }

  boolean isEmpty() {
    return versions.isEmpty() && waiting.isEmpty() && alarm == NO_ALARM;
  }

  static KeyState decode(byte[] bytes) {
    if (bytes == null) {
      return empty();
    }
    ByteBuffer in = Layout.open(bytes, LAYOUT, WHAT);
    long alarm = in.getLong();
    ArrayList<Entry> versions = entries(in);
    return new KeyState(versions, entries(in), alarm);
  }

  private static ArrayList<Entry> entries(ByteBuffer in) {
    int count = in.getInt();
    ArrayList<Entry> found = new ArrayList<>(count + 1);
    for (int i = 0; i < count; i++) {
      found.add(new Entry(in.getLong(), Layout.get(in), Layout.get(in)));
    }
    return found;
  }

  byte[] encode() {
    ByteBuffer out = Layout.create(HEADER + size(versions) + size(waiting), LAYOUT, WHAT);
    out.putLong(alarm);
    put(out, versions);
    put(out, waiting);
    return out.array();
  }

  private static long size(List<Entry> entries) {
    long size = 0;
    for (Entry entry : entries) {
      size += Long.BYTES + Layout.size(entry.order()) + Layout.size(entry.payload());
    }
    return size;
  }

  private static void put(ByteBuffer out, List<Entry> entries) {
    out.putInt(entries.size());
    for (Entry entry : entries) {
      out.putLong(entry.ts());
      Layout.put(out, entry.order());
      Layout.put(out, entry.payload());
    }
  }

  /** Adds a version in its place; of two with one time the later position stays. */
  void addVersion(Entry version) {
    int at = versions.size();
    while (at > 0 && Entry.ORDER.compare(versions.get(at - 1), version) > 0) {
      at--;
    }
    if (at < versions.size() && versions.get(at).ts() == version.ts()) {
      return;
    }
    if (at > 0 && versions.get(at - 1).ts() == version.ts()) {
      versions.set(at - 1, version);
      return;
    }
    versions.add(at, version);
  }

  /** The version valid at {@code ts}, null when there is none or it is a delete. */
  Entry versionAt(long ts) {
    for (int i = versions.size() - 1; i >= 0; i--) {
      Entry version = versions.get(i);
      if (version.ts() <= ts) {
        return version.isDelete() ? null : version;
      }
    }
    return null;
  }

  void addWaiting(List<Entry> rows) {
    if (!rows.isEmpty()) {
      waiting.addAll(rows);
      Collections.sort(waiting, Entry.ORDER);
    }
  }

  /** Removes and returns the waiting rows before {@code time}. */
  List<Entry> takeDue(long time) {
    return Waiting.takeBefore(waiting, Entry::ts, time);
  }

  /**
   * Forgets versions that ended before {@code horizon - retention}, and of the final ones (before {@code horizon}) all
   * but the newest {@code most}; the newest final one stays, unless it is a delete that old. Returns whether any went.
   */
  boolean prune(long horizon, long retention, int most) {
    long cut = horizon < Long.MIN_VALUE + retention ? Long.MIN_VALUE : horizon - retention;
    int last = -1;
    while (last + 1 < versions.size() && versions.get(last + 1).ts() < horizon) {
      last++;
    }
    int drop = 0;
    while (drop < last && (versions.get(drop + 1).ts() <= cut || last - drop >= most)) {
      drop++;
    }
    if (drop <= last && versions.get(drop).isDelete() && versions.get(drop).ts() <= cut) {
      drop++;
    }
    versions.subList(0, drop).clear();
    return drop > 0;
  }
}
