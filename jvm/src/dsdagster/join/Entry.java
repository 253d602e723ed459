package dsdagster.join;

import java.util.Arrays;
import java.util.Comparator;

/**
 * A version or a waiting stream row of one key.
 *
 * @param ts event time, microseconds
 * @param order source position; breaks ties of equal times, compared byte by byte
 * @param payload packed struct; null for a delete
 */
record Entry(long ts, byte[] order, byte[] payload) {
  /** By time, then position: the order of output and of versions. */
  static final Comparator<Entry> ORDER =
      Comparator.comparingLong(Entry::ts).thenComparing(Entry::order, Arrays::compareUnsigned);

  boolean isDelete() {
    return payload == null;
  }
}
