package dsdagster.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;

/** Some neighbouring rows of a list: their summary in the list and, once they are needed, the rows. */
final class Bucket {
  static final long UNSAVED = -1;
  /** Bytes of an entry in the list of buckets. */
  static final int ENTRY = 3 * Long.BYTES + 2 * Integer.BYTES;

  /** Key of the rows in the state store. */
  long id = UNSAVED;
  private long firstTime;
  private long lastTime;
  private int count;
  private long bytes;
  /** Rows in memory; null while they are only in the state store. Rows before {@link #from} have been removed. */
  private ArrayList<TimedRow> rows;
  private int from;
  private boolean isChanged;

  /** An empty bucket. */
  Bucket() {
    rows = new ArrayList<>();
  }

  /** Reads the bytes of {@link #putEntry}. */
  Bucket(ByteBuffer in) {
    id = in.getLong();
    firstTime = in.getLong();
    lastTime = in.getLong();
    count = in.getInt();
    bytes = in.getInt();
  }

  void putEntry(ByteBuffer out) {
    out.putLong(id).putLong(firstTime).putLong(lastTime).putInt(count).putInt((int) bytes);
  }

  boolean isHeld() {
    return rows != null;
  }

  boolean isChanged() {
    return isChanged;
  }

  int count() {
    return count;
  }

  long bytes() {
    return bytes;
  }

  long firstTime() {
    return firstTime;
  }

  long lastTime() {
    return lastTime;
  }

  TimedRow get(int index) {
    return rows.get(from + index);
  }

  /** Reads the rows. */
  void hold(ByteBuffer in) {
    int size = in.getInt();
    rows = new ArrayList<>(size + 4);
    from = 0;
    for (int i = 0; i < size; i++) {
      rows.add(TimedRow.get(in));
    }
  }

  /** Called when the rows have been written to the state store. */
  void saved() {
    isChanged = false;
  }

  void letGo() {
    rows = null;
  }

  long encodedSize() {
    return Integer.BYTES + bytes;
  }

  void put(ByteBuffer out) {
    out.putInt(count);
    for (int i = 0; i < count; i++) {
      get(i).put(out);
    }
  }

  void add(int index, TimedRow row) {
    rows.add(from + index, row);
    count++;
    bytes += row.size();
    changed();
  }

  void set(int index, TimedRow row) {
    bytes += row.size() - get(index).size();
    rows.set(from + index, row);
    changed();
  }

  TimedRow removeFirst() {
    TimedRow row = rows.set(from++, null);
    count--;
    bytes -= row.size();
    changed();
    return row;
  }

  TimedRow remove(int index) {
    TimedRow row = rows.remove(from + index);
    count--;
    bytes -= row.size();
    changed();
    return row;
  }

  TimedRow removeLast() {
    return remove(count - 1);
  }

  private void changed() {
    isChanged = true;
    if (count > 0) {
      firstTime = get(0).ts();
      lastTime = get(count - 1).ts();
    }
  }

  /** Moves the rows from an index on into a new bucket. */
  Bucket split(int index) {
    Bucket tail = new Bucket();
    for (int i = index; i < count; i++) {
      tail.add(tail.count, get(i));
    }
    rows.subList(from + index, rows.size()).clear();
    count = index;
    bytes -= tail.bytes;
    changed();
    return tail;
  }

  /** Index of the first row at or after a time. */
  int first(long ts) {
    int low = 0;
    int high = count;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (get(middle).ts() < ts) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** Index after the rows that are not after a row in the order. */
  int behind(TimedRow row, Comparator<TimedRow> order) {
    int low = 0;
    int high = count;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (order.compare(get(middle), row) <= 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}
