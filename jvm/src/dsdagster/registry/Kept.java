package dsdagster.registry;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/** A cache of values by key, each made once; when it is full, the least recently used value is removed. */
public final class Kept<K, V> {
  private static final int MOST = 256;

  private final Map<K, V> values =
      new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
          return size() > MOST;
        }
      };

  /** The value of a key. {@code make} runs outside of the lock; if two threads make a value, the first is kept. */
  public V of(K key, Function<K, V> make) {
    synchronized (values) {
      V known = values.get(key);
      if (known != null) {
        return known;
      }
    }
    V made = make.apply(key);
    synchronized (values) {
      V first = values.putIfAbsent(key, made);
      return first == null ? made : first;
    }
  }
}
