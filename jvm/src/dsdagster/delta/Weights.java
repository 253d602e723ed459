package dsdagster.delta;

import java.util.Iterator;
import java.util.Map;

/**
 * Counted things of one key of an operator; a thing with the count zero is not stored.
 *
 * @param <K> type of the counted things, with their own equality
 */
public interface Weights<K> {
  /** The count of a thing; zero if it is not stored. */
  long get(K thing);

  /** Sets the count of a thing; zero removes it. */
  void set(K thing, long weight);

  /** All things with their counts; no count may be set during the iteration. */
  Iterator<Map.Entry<K, Long>> iterator();
}
