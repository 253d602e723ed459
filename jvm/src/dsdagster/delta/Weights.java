package dsdagster.delta;

import java.util.Iterator;
import java.util.Map;

/**
 * Things of one key of an operator with how often each is there; nothing is there zero times.
 *
 * @param <K> what is counted, with an identity of its own
 */
public interface Weights<K> {
  /** Zero for what is not there. */
  long get(K thing);

  /** Zero removes it. */
  void set(K thing, long weight);

  /** All of them; meanwhile none is set. */
  Iterator<Map.Entry<K, Long>> iterator();
}
