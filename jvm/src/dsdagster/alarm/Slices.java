package dsdagster.alarm;

import dsdagster.Layout;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;

/**
 * Alarms in the state store: divided by time into slices (finer ones for nearer times), each a list of chunks of
 * (moment, key).
 *
 * <p>A batch adds one chunk to each slice it has alarms for. Chunks of similar size are merged, so that there are few
 * chunks and none is written often. Due alarms are taken out by whole slices; alarms that are not due yet are added
 * again, to a finer slice. The list of slices is one value.
 */
final class Slices {
  static final long NONE = Long.MAX_VALUE;
  private static final byte LAYOUT = 1;
  private static final String WHAT = "alarms";
  /** Milliseconds of the finest slices; slices of each higher level are {@link #FACTOR} times as long. */
  private static final long FINEST = 1000;
  private static final long FACTOR = 32;
  private static final int LEVELS = 7;
  /** Bytes from which on a chunk is not merged any more. */
  private static final int LARGE = 1 << 20;
  private static final int SLICE = 1 + Long.BYTES + Long.BYTES + Integer.BYTES;
  private static final int CHUNK = Long.BYTES + Integer.BYTES;

  private record Place(byte level, long index) {}

  private record Chunk(long id, int size) {}

  /** Chunks of a slice, oldest first, and its first moment. */
  private static final class Slice {
    private final List<Chunk> chunks = new ArrayList<>();
    private long first = NONE;
  }

  /** Time of the partition's timer. */
  long timer = NONE;
  private final ValueState<byte[]> listed;
  private final MapState<Long, byte[]> chunks;
  private final Map<Place, Slice> slices = new HashMap<>();
  private final Map<Place, ByteArrayOutputStream> unwritten = new HashMap<>();
  private final ByteBuffer head = ByteBuffer.allocate(Long.BYTES + Integer.BYTES);
  private Place full;
  private long nextId;

  Slices(StatefulProcessorHandle handle) {
    listed = handle.getValueState("alarms", Encoders.BINARY(), TTLConfig.NONE());
    chunks = handle.getMapState("alarmed", Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE());
  }

  void load() {
    byte[] known = listed.get();
    if (known == null) {
      return;
    }
    ByteBuffer in = Layout.open(known, LAYOUT, WHAT);
    timer = in.getLong();
    nextId = in.getLong();
    for (int left = in.getInt(); left > 0; left--) {
      Slice slice = new Slice();
      slices.put(new Place(in.get(), in.getLong()), slice);
      slice.first = in.getLong();
      for (int more = in.getInt(); more > 0; more--) {
        slice.chunks.add(new Chunk(in.getLong(), in.getInt()));
      }
    }
  }

  void store() {
    if (slices.isEmpty()) {
      listed.clear();
      return;
    }
    long size = 1 + 2 * Long.BYTES + Integer.BYTES;
    for (Slice slice : slices.values()) {
      size += SLICE + slice.chunks.size() * CHUNK;
    }
    ByteBuffer out = Layout.create(size, LAYOUT, WHAT);
    out.putLong(timer).putLong(nextId).putInt(slices.size());
    slices.forEach((place, slice) -> {
      out.put(place.level).putLong(place.index).putLong(slice.first).putInt(slice.chunks.size());
      slice.chunks.forEach(chunk -> out.putLong(chunk.id).putInt(chunk.size));
    });
    listed.update(out.array());
  }

  /** Adds an alarm in memory. Returns whether the slice is full and has to be written by {@link #spill}. */
  boolean add(long due, byte[] key, long now) {
    Place place = place(due, now);
    ByteArrayOutputStream buffer = unwritten.computeIfAbsent(place, unused -> new ByteArrayOutputStream());
    head.clear();
    buffer.write(head.putLong(due).putInt(key.length).array(), 0, head.capacity());
    buffer.write(key, 0, key.length);
    Slice slice = slices.computeIfAbsent(place, unused -> new Slice());
    slice.first = Math.min(slice.first, due);
    if (buffer.size() < LARGE) {
      return false;
    }
    full = place;
    return true;
  }

  private static Place place(long due, long now) {
    long away = due - now;
    long width = FINEST;
    byte level = 0;
    while (level < LEVELS - 1 && away >= FACTOR * width) {
      width *= FACTOR;
      level++;
    }
    return new Place(level, Math.floorDiv(due, width));
  }

  /** Writes the slice that {@link #add} found full. */
  void spill() {
    write(full, unwritten.remove(full).toByteArray());
  }

  /** Writes the added alarms. */
  void write() {
    unwritten.forEach((place, buffer) -> write(place, buffer.toByteArray()));
    unwritten.clear();
  }

  private void write(Place place, byte[] added) {
    List<Chunk> known = slices.get(place).chunks;
    byte[] all = added;
    while (!known.isEmpty() && isNear(known.get(known.size() - 1).size, all.length)) {
      Chunk last = known.remove(known.size() - 1);
      byte[] before = chunks.getValue(last.id);
      chunks.removeKey(last.id);
      all = ByteBuffer.allocate(before.length + all.length).put(before).put(all).array();
    }
    known.add(new Chunk(nextId, all.length));
    chunks.updateValue(nextId++, all);
  }

  private static boolean isNear(int before, int added) {
    return before <= 2 * added && before + added <= LARGE;
  }

  /**
   * Removes the slices with due alarms from the list, also alarms that this batch has set. Each supplier gives the
   * alarms of one stored chunk, which it deletes, or the alarms that were not written yet.
   */
  Deque<Supplier<ByteBuffer>> takeDue(long now) {
    Deque<Supplier<ByteBuffer>> due = new ArrayDeque<>();
    Iterator<Map.Entry<Place, Slice>> left = slices.entrySet().iterator();
    while (left.hasNext()) {
      Map.Entry<Place, Slice> one = left.next();
      Slice slice = one.getValue();
      if (slice.first > now) {
        continue;
      }
      slice.chunks.forEach(chunk -> due.add(() -> take(chunk.id)));
      ByteArrayOutputStream added = unwritten.remove(one.getKey());
      if (added != null) {
        ByteBuffer alarms = ByteBuffer.wrap(added.toByteArray());
        due.add(() -> alarms);
      }
      left.remove();
    }
    return due;
  }

  private ByteBuffer take(long chunk) {
    byte[] alarms = chunks.getValue(chunk);
    chunks.removeKey(chunk);
    return ByteBuffer.wrap(alarms);
  }

  /** Time of the earliest alarm; {@link #NONE} without one. */
  long nextDue() {
    return slices.values().stream().mapToLong(slice -> slice.first).min().orElse(NONE);
  }
}
