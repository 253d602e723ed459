package dsdagster.state.keys;

import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/** What is known of the keys of one store: nothing, or the hashes of all keys of all its column families. */
final class KnownKeys {
  /** Distinguishes the hashes of stores, so that nobody can choose keys with equal ones. */
  private final long seed = ThreadLocalRandom.current().nextLong();

  private final KeyHashes hashes = new KeyHashes();
  private boolean isComplete;

  /** Whether the hashes of all keys of the store are here. */
  boolean isComplete() {
    return isComplete;
  }

  /** The store has no keys; from now on each is told. */
  void begin() {
    hashes.clear();
    isComplete = true;
  }

  /** Not all keys are known any more. */
  void forget() {
    hashes.clear();
    isComplete = false;
  }

  /** Whether the store certainly lacks a key. */
  boolean isAbsent(String family, byte[] key) {
    return isComplete && !hashes.mayHave(hash(family, key, 0));
  }

  /** A key is put, the bytes of {@code key} from {@code start}: returns whether it is new. Needs {@link #hasRoom}. */
  boolean add(String family, byte[] key, int start) {
    return hashes.add(hash(family, key, start));
  }

  /** A key is removed: returns whether the store had it. */
  boolean remove(String family, byte[] key) {
    return hashes.remove(hash(family, key, 0));
  }

  /** Makes room for one more key; without memory for it, all keys are forgotten. Returns whether all are known. */
  boolean hasRoom() {
    if (isComplete && !hashes.hasRoom()) {
      forget();
    }
    return isComplete;
  }

  /** Whether to read the keys of the store again is better than more memory. */
  boolean isWorthReading() {
    return isComplete && hashes.isWorthClearing();
  }

  private long hash(String family, byte[] key, int start) {
    return XXH64.hashUnsafeBytes(
        key, Platform.BYTE_ARRAY_OFFSET + start, key.length - start, seed + family.hashCode());
  }
}
