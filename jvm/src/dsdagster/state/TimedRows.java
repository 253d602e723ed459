package dsdagster.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/**
 * Rows of one key, ordered by time first. A short list is part of the key's value. A longer list is divided into
 * buckets, each a value of its own, and the key's value lists them: so a batch reads and writes only the buckets that
 * it uses.
 *
 * <p>Rule: the bytes of a short list are its count and its rows, as in earlier versions, which had no buckets.
 */
public final class TimedRows {
  /** Stands for the time of a missing row. */
  public static final long NO_TIME = Long.MAX_VALUE;
  /** The highest byte of a bucket's number is the number of its list. */
  private static final int LIST_SHIFT = Long.SIZE - Byte.SIZE;

  private final Buckets store;
  private final Comparator<TimedRow> order;
  private final List<Bucket> buckets = new ArrayList<>();
  private long nextId;
  private long size;
  /** Bytes of the rows in memory. */
  private long held;

  /**
   * An empty list.
   *
   * @param list number of this list among the lists of the key
   * @param order order of the rows, by time first
   */
  public TimedRows(Buckets store, int list, Comparator<TimedRow> order) {
    this.store = store;
    this.order = order;
    this.nextId = (long) list << LIST_SHIFT;
  }

  /** Reads the bytes of {@link #put}. */
  public static TimedRows get(ByteBuffer in, Buckets store, int list, Comparator<TimedRow> order) {
    TimedRows found = new TimedRows(store, list, order);
    int count = in.getInt();
    if (count >= 0) {
      for (int i = 0; i < count; i++) {
        found.append(TimedRow.get(in));
      }
      return found;
    }
    found.nextId = in.getLong();
    for (int i = count; i < 0; i++) {
      Bucket bucket = new Bucket(in);
      found.buckets.add(bucket);
      found.size += bucket.count();
    }
    return found;
  }

  /** Whether all rows are in the key's value; valid after {@link #encodedSize}. */
  public boolean isShort() {
    return buckets.isEmpty() || buckets.size() == 1 && buckets.get(0).bytes() <= store.limit();
  }

  /** Writes the buckets; returns the number of bytes that {@link #put} writes. */
  public long encodedSize() {
    if (isShort()) {
      return Integer.BYTES + (buckets.isEmpty() ? 0 : toShort(buckets.get(0)).bytes());
    }
    for (Bucket bucket : buckets) {
      save(bucket);
    }
    return Integer.BYTES + Long.BYTES + (long) Bucket.ENTRY * buckets.size();
  }

  private Bucket toShort(Bucket only) {
    hold(only);
    if (only.id != Bucket.UNSAVED) {
      store.remove(only.id);
      only.id = Bucket.UNSAVED;
    }
    return only;
  }

  public void put(ByteBuffer out) {
    if (buckets.isEmpty()) {
      out.putInt(0);
    } else if (isShort()) {
      buckets.get(0).put(out);
    } else {
      out.putInt(-buckets.size()).putLong(nextId);
      buckets.forEach(bucket -> bucket.putEntry(out));
    }
  }

  public long size() {
    return size;
  }

  public boolean isEmpty() {
    return size == 0;
  }

  /** Time of the first row; {@link #NO_TIME} without one. */
  public long firstTime() {
    return isEmpty() ? NO_TIME : buckets.get(0).firstTime();
  }

  /** The first row; null without one. */
  public TimedRow first() {
    return isEmpty() ? null : hold(buckets.get(0)).get(0);
  }

  /** The last row; null without one. */
  public TimedRow last() {
    if (isEmpty()) {
      return null;
    }
    Bucket bucket = hold(buckets.get(buckets.size() - 1));
    return bucket.get(bucket.count() - 1);
  }

  /** Time of the last row, without reading it; {@link #NO_TIME} without one. */
  public long lastTime() {
    return isEmpty() ? NO_TIME : buckets.get(buckets.size() - 1).lastTime();
  }

  /** The row at an index, searched from the nearer end. */
  public TimedRow get(long index) {
    int at = 0;
    long before = 0;
    if (index > size / 2) {
      at = buckets.size() - 1;
      before = size - buckets.get(at).count();
      while (before > index) {
        before -= buckets.get(--at).count();
      }
    }
    while (before + buckets.get(at).count() <= index) {
      before += buckets.get(at++).count();
    }
    return hold(buckets.get(at)).get((int) (index - before));
  }

  /** Number of rows before a time. */
  public long countBefore(long ts) {
    long found = 0;
    for (Bucket bucket : buckets) {
      if (bucket.lastTime() >= ts) {
        return found + (bucket.firstTime() >= ts ? 0 : hold(bucket).first(ts));
      }
      found += bucket.count();
    }
    return found;
  }

  /** Adds a row in its place, after rows that are equal in the order. */
  public void add(TimedRow row) {
    if (isEmpty()) {
      append(row);
      return;
    }
    int at = place(row);
    Bucket bucket = hold(buckets.get(at));
    int index = bucket.behind(row, order);
    if (index == bucket.count() && at == buckets.size() - 1) {
      append(row);
      return;
    }
    bucket.add(index, row);
    added(row);
    relieve(bucket);
    if (bucket.bytes() > store.limit() && bucket.count() > 1) {
      buckets.add(at + 1, bucket.split(bucket.count() / 2));
    }
  }

  /** Adds a row after all others. A full bucket is not split: rows in order fill each bucket completely. */
  private void append(TimedRow row) {
    Bucket last = isEmpty() ? null : hold(buckets.get(buckets.size() - 1));
    if (last == null || last.bytes() + row.size() > store.limit()) {
      last = new Bucket();
      buckets.add(last);
    }
    last.add(last.count(), row);
    added(row);
    relieve(last);
  }

  private void added(TimedRow row) {
    size++;
    held += row.size();
  }

  /** Index of the last bucket that begins at or before the row; else of the first bucket. */
  private int place(TimedRow row) {
    int low = 0;
    int high = buckets.size() - 1;
    int middle = high;
    while (low < high) {
      if (compareFirst(buckets.get(middle), row) <= 0) {
        low = middle;
      } else {
        high = middle - 1;
      }
      middle = (low + high + 1) >>> 1;
    }
    return low;
  }

  private int compareFirst(Bucket bucket, TimedRow row) {
    int found = Long.compare(bucket.firstTime(), row.ts());
    return found != 0 ? found : order.compare(hold(bucket).get(0), row);
  }

  public TimedRow removeFirst() {
    Bucket bucket = hold(buckets.get(0));
    TimedRow row = bucket.removeFirst();
    removed(bucket, row);
    return row;
  }

  public TimedRow removeLast() {
    Bucket bucket = hold(buckets.get(buckets.size() - 1));
    TimedRow row = bucket.removeLast();
    removed(bucket, row);
    return row;
  }

  private void removed(Bucket bucket, TimedRow row) {
    size--;
    held -= row.size();
    if (bucket.count() == 0) {
      forget(bucket);
    }
  }

  private void forget(Bucket bucket) {
    buckets.remove(bucket == buckets.get(0) ? 0 : buckets.lastIndexOf(bucket));
    if (bucket.id != Bucket.UNSAVED) {
      store.remove(bucket.id);
    }
  }

  /** Removes the first {@code count} rows, without reading buckets that are removed as a whole. */
  public void removeFirst(long count) {
    long left = count;
    while (left > 0 && buckets.get(0).count() <= left) {
      Bucket bucket = buckets.get(0);
      left -= bucket.count();
      size -= bucket.count();
      held -= bucket.isHeld() ? bucket.bytes() : 0;
      forget(bucket);
    }
    while (left-- > 0) {
      removeFirst();
    }
  }

  /**
   * Removes the first rows, at least one and as many as fit into a bucket; returns their payloads. Not for empty
   * lists.
   */
  public List<byte[]> takePayloads() {
    List<byte[]> taken = new ArrayList<>();
    long bytes = 0;
    do {
      byte[] payload = removeFirst().payload();
      taken.add(payload);
      bytes += payload.length;
    } while (!isEmpty() && bytes < store.limit());
    return taken;
  }

  public void clear() {
    removeFirst(size);
  }

  /** The rows up to a time, inclusive; each is removed when it is read. */
  public Iterator<TimedRow> takeUntil(long ts) {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return !isEmpty() && firstTime() <= ts;
      }

      @Override
      public TimedRow next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        return removeFirst();
      }
    };
  }

  /** The rows between two times, inclusive. */
  public Cursor between(long from, long until) {
    return new Cursor(from, until);
  }

  /** The last row up to a time, inclusive; null without one. */
  public TimedRow lastUntil(long ts) {
    Cursor found = new Cursor(ts);
    return found.at < 0 ? null : found.row();
  }

  /** Replaces the last row up to the new row's time by the new row. */
  public void replaceLastUntil(TimedRow row) {
    new Cursor(row.ts()).set(row);
  }

  /** A cursor over the rows; while it is used, rows may be added or removed only through it. */
  public final class Cursor implements Iterator<TimedRow> {
    private final long until;
    private int at;
    private int index;

    private Cursor(long from, long until) {
      this.until = until;
      int high = buckets.size();
      while (at < high) {
        int middle = (at + high) >>> 1;
        if (buckets.get(middle).lastTime() < from) {
          at = middle + 1;
        } else {
          high = middle;
        }
      }
      boolean isInside = at < buckets.size() && buckets.get(at).firstTime() < from;
      index = isInside ? hold(buckets.get(at)).first(from) : 0;
    }

    /** A cursor at the last row up to a time. */
    private Cursor(long ts) {
      this.until = ts;
      int high = buckets.size();
      while (at < high) {
        int middle = (at + high) >>> 1;
        if (buckets.get(middle).firstTime() <= ts) {
          at = middle + 1;
        } else {
          high = middle;
        }
      }
      at--;
      index = at < 0 ? -1 : hold(buckets.get(at)).behind(new TimedRow(ts, null, null), TimedRow.BY_TIME) - 1;
    }

    private TimedRow row() {
      return hold(buckets.get(at)).get(index);
    }

    private void set(TimedRow row) {
      hold(buckets.get(at)).set(index, row);
    }

    @Override
    public boolean hasNext() {
      if (at < buckets.size() && index == buckets.get(at).count()) {
        at++;
        index = 0;
      }
      return at < buckets.size() && (buckets.get(at).lastTime() <= until || time() <= until);
    }

    private long time() {
      return index == 0 ? buckets.get(at).firstTime() : row().ts();
    }

    @Override
    public TimedRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      TimedRow found = row();
      index++;
      return found;
    }

    /** Replaces the row that {@link #next} has just returned by a row with the same time. */
    public void replace(TimedRow row) {
      hold(buckets.get(at)).set(index - 1, row);
    }

    /** Removes the row that {@link #next} has just returned. */
    @Override
    public void remove() {
      Bucket bucket = hold(buckets.get(at));
      removed(bucket, bucket.remove(--index));
    }
  }

  /** The bucket, with its rows in memory. */
  private Bucket hold(Bucket bucket) {
    if (!bucket.isHeld()) {
      bucket.hold(store.read(bucket.id));
      held += bucket.bytes();
      relieve(bucket);
    }
    return bucket;
  }

  /** Writes and releases the rows of other buckets if there are too many in memory. */
  private void relieve(Bucket needed) {
    if (held <= store.mostHeld()) {
      return;
    }
    for (Bucket bucket : buckets) {
      if (bucket != needed && bucket.isHeld()) {
        save(bucket);
        bucket.letGo();
      }
    }
    held = needed.bytes();
  }

  private void save(Bucket bucket) {
    if (bucket.isChanged() || bucket.id == Bucket.UNSAVED) {
      bucket.id = bucket.id == Bucket.UNSAVED ? nextId++ : bucket.id;
      store.write(bucket.id, bucket);
      bucket.saved();
    }
  }
}
