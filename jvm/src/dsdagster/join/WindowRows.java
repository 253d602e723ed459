package dsdagster.join;

import dsdagster.Layout;
import dsdagster.OperatorFault;
import dsdagster.state.Buckets;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;

/**
 * The rows of one window, or a share of them, in the order of arrival: written in chunks, read once, at the window's
 * end.
 *
 * <p>Rules: a batch adds one chunk. Chunks of similar size are merged, so that there are few chunks and none is
 * written often. The list of chunks is one value in the state store. Its layout has a number; an unknown number is
 * refused.
 */
final class WindowRows {
  private static final byte LAYOUT = 1;
  private static final String WHAT = "state of a window join";
  private static final int CHUNK = Long.BYTES + Integer.BYTES;
  /** Bytes before a row: its side, and the lengths of its key and of the row. */
  private static final int ROW = 1 + 2 * Integer.BYTES;
  /** Size, in buckets of the usual size, from which on a chunk is not merged any more. */
  private static final int LARGE = 32;

  private record Chunk(long id, int size) {}

  private final ValueState<byte[]> listed;
  private final MapState<Long, byte[]> stored;
  private final long large = (long) LARGE * Buckets.usualLimit();
  private final List<Chunk> chunks = new ArrayList<>();
  private ByteBuffer added = ByteBuffer.allocate(1 << 10);
  private long nextId;
  private boolean isKnown;

  WindowRows(StatefulProcessorHandle handle) {
    listed = handle.getValueState("window", Encoders.BINARY(), TTLConfig.NONE());
    stored = handle.getMapState("chunks", Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE());
  }

  /** Reads the state of Spark's current key; returns whether there is any. */
  boolean open() {
    chunks.clear();
    added.clear();
    nextId = 0;
    byte[] known = listed.get();
    isKnown = known != null;
    if (isKnown) {
      ByteBuffer in = Layout.open(known, LAYOUT, WHAT);
      nextId = in.getLong();
      while (in.hasRemaining()) {
        chunks.add(new Chunk(in.getLong(), in.getInt()));
      }
    }
    return isKnown;
  }

  /** @param key null for a row that matches nothing */
  void add(int side, byte[] key, byte[] row) {
    long size = ROW + (key == null ? 0 : key.length) + (long) row.length;
    if (added.position() > 0 && added.position() + size > large) {
      write();
    }
    if (size > added.remaining()) {
      long wanted = Math.max(2L * added.capacity(), added.position() + size);
      if (wanted > Integer.MAX_VALUE - 8) {
        throw new OperatorFault("STATE_TOO_LARGE", WHAT + ": a row of " + size + " bytes");
      }
      added = ByteBuffer.allocate((int) wanted).put(added.flip());
    }
    added.put((byte) side);
    Layout.put(added, key);
    Layout.put(added, row);
  }

  private void write() {
    int size = added.position();
    List<byte[]> before = new ArrayList<>();
    while (!chunks.isEmpty() && isNear(chunks.get(chunks.size() - 1).size, size)) {
      Chunk last = chunks.remove(chunks.size() - 1);
      before.add(0, stored.getValue(last.id));
      stored.removeKey(last.id);
      size += last.size;
    }
    ByteBuffer all = ByteBuffer.allocate(size);
    before.forEach(all::put);
    all.put(added.flip());
    added.clear();
    chunks.add(new Chunk(nextId, size));
    stored.updateValue(nextId++, all.array());
  }

  private boolean isNear(int before, int more) {
    return before <= 2 * more && (long) before + more <= large;
  }

  /** Writes the added rows. */
  void store() {
    if (added.position() > 0) {
      write();
    }
    long size = 1 + Long.BYTES + (long) CHUNK * chunks.size();
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT).putLong(nextId);
    chunks.forEach(chunk -> out.putLong(chunk.id).putInt(chunk.size));
    listed.update(out.array());
  }

  /** Deletes all rows. */
  void clear() {
    chunks.forEach(chunk -> stored.removeKey(chunk.id));
    chunks.clear();
    added.clear();
    if (isKnown) {
      listed.clear();
    }
  }

  /** A cursor over the rows of a side; no row may be added while it is used. */
  Cursor rows(int side) {
    return new Cursor(side);
  }

  final class Cursor {
    private final int side;
    private int chunk;
    private ByteBuffer in = ByteBuffer.allocate(0);
    private byte[] key;
    private byte[] row;

    private Cursor(int side) {
      this.side = side;
    }

    /** Moves to the next row; false after the last one. */
    boolean next() {
      while (in.hasRemaining() || chunk <= chunks.size()) {
        if (!in.hasRemaining()) {
          in = chunk < chunks.size() ? ByteBuffer.wrap(stored.getValue(chunks.get(chunk).id)) : addedNow();
          chunk++;
        } else if (in.get() == side) {
          key = Layout.get(in);
          row = Layout.get(in);
          return true;
        } else {
          skip();
          skip();
        }
      }
      return false;
    }

    private ByteBuffer addedNow() {
      return added.duplicate().flip();
    }

    private void skip() {
      int length = in.getInt();
      in.position(in.position() + Math.max(0, length));
    }

    /** Key of the row; null for a row that matches nothing. */
    byte[] key() {
      return key;
    }

    byte[] row() {
      return row;
    }
  }
}
