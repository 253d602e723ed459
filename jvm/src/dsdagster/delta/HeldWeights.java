package dsdagster.delta;

import dsdagster.Layout;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * A few weights: in memory while their key is visited, stored as a part of the key's own value. One read and one write
 * of the state store serve all of them.
 */
public final class HeldWeights<K> implements Weights<K> {
  private static final class Held {
    private final byte[] packed;
    private long weight;

    Held(byte[] packed, long weight) {
      this.packed = packed;
      this.weight = weight;
    }

    long size() {
      return Layout.size(packed) + Long.BYTES;
    }
  }

  private final Map<K, Held> held = new LinkedHashMap<>();
  private final Function<K, byte[]> pack;
  private long size = Integer.BYTES;

  /** No weights. */
  public HeldWeights(Function<K, byte[]> pack) {
    this.pack = pack;
  }

  /** Reads the bytes of {@link #put}; {@code unpack} is the inverse of {@code pack}. */
  public static <K> HeldWeights<K> get(ByteBuffer in, Function<K, byte[]> pack, Function<byte[], K> unpack) {
    HeldWeights<K> found = new HeldWeights<>(pack);
    for (int left = in.getInt(); left > 0; left--) {
      byte[] packed = Layout.get(in);
      found.add(unpack.apply(packed), new Held(packed, in.getLong()));
    }
    return found;
  }

  /** Number of bytes that {@link #put} writes. */
  public long encodedSize() {
    return size;
  }

  public void put(ByteBuffer out) {
    out.putInt(held.size());
    for (Held one : held.values()) {
      Layout.put(out, one.packed);
      out.putLong(one.weight);
    }
  }

  private void add(K thing, Held one) {
    held.put(thing, one);
    size += one.size();
  }

  @Override
  public long get(K thing) {
    Held found = held.get(thing);
    return found == null ? 0 : found.weight;
  }

  @Override
  public void set(K thing, long weight) {
    Held found = held.get(thing);
    if (weight == 0) {
      size -= found == null ? 0 : held.remove(thing).size();
    } else if (found == null) {
      add(thing, new Held(pack.apply(thing), weight));
    } else {
      found.weight = weight;
    }
  }

  @Override
  public Iterator<Map.Entry<K, Long>> iterator() {
    Iterator<Map.Entry<K, Held>> all = held.entrySet().iterator();
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return all.hasNext();
      }

      @Override
      public Map.Entry<K, Long> next() {
        Map.Entry<K, Held> next = all.next();
        return Map.entry(next.getKey(), next.getValue().weight);
      }
    };
  }

  /** Moves all weights into {@code others}. */
  public void moveTo(Weights<K> others) {
    held.forEach((thing, one) -> others.set(thing, one.weight));
    held.clear();
    size = Integer.BYTES;
  }
}
