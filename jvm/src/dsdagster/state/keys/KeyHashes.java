package dsdagster.state.keys;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Hashes of the keys that a store has or had. A key without its hash here is not in the store.
 *
 * <p>A hash is also marked as that of a key that the store has now, to count keys. Two keys with one hash, of 63 bits,
 * are one in the count; whether a key is absent is certain all the same, since no hash is ever taken out.
 *
 * <p>All of a JVM take at most {@link #SHARE} of its heap, from 12 to 24 bytes for each key.
 */
final class KeyHashes {
  /** The heap is this many times as large as all hashes together. */
  private static final int SHARE = 16;

  private static final int FIRST_SLOTS = 1 << 10;
  private static final long IS_PRESENT = 1;
  /** In place of a hash of which no bit is left, since a slot of 0 is free. */
  private static final long NO_BITS = 2;

  private static final AtomicLong BYTES = new AtomicLong();

  private long[] slots = new long[0];
  private int used;
  private int present;

  /** Whether a key with this hash is, or was, in the store. */
  boolean mayHave(long hash) {
    return slots.length > 0 && slots[slotOf(bits(hash))] != 0;
  }

  /** A key is put: returns whether the store did not have it. Needs {@link #hasRoom}. */
  boolean add(long hash) {
    long bits = bits(hash);
    int slot = slotOf(bits);
    long before = slots[slot];
    if ((before & IS_PRESENT) != 0) {
      return false;
    }
    used += before == 0 ? 1 : 0;
    present++;
    slots[slot] = bits | IS_PRESENT;
    return true;
  }

  /** A key is removed: returns whether the store had it. */
  boolean remove(long hash) {
    if (slots.length == 0) {
      return false;
    }
    int slot = slotOf(bits(hash));
    if ((slots[slot] & IS_PRESENT) == 0) {
      return false;
    }
    present--;
    slots[slot] &= ~IS_PRESENT;
    return true;
  }

  /** Whether more than half of the hashes are those of removed keys, and one more would need more memory. */
  boolean isWorthClearing() {
    return isFull() && present < used / 2;
  }

  /** Makes room for one more hash; false if the JVM has no memory for it, and then these are of no more use. */
  boolean hasRoom() {
    if (!isFull()) {
      return true;
    }
    long more = slots.length == 0 ? FIRST_SLOTS : slots.length; // twice as many as before
    if (slots.length > Integer.MAX_VALUE / 4 || !take(more * Long.BYTES)) {
      return false;
    }
    long[] before = slots;
    slots = new long[Math.max(FIRST_SLOTS, 2 * before.length)];
    for (long entry : before) {
      if (entry != 0) {
        slots[slotOf(entry & ~IS_PRESENT)] = entry;
      }
    }
    return true;
  }

  /** Forgets all keys and gives the memory back. */
  void clear() {
    BYTES.addAndGet(-(long) slots.length * Long.BYTES);
    slots = new long[0];
    used = 0;
    present = 0;
  }

  private boolean isFull() {
    return 3L * used >= 2L * slots.length;
  }

  private static boolean take(long bytes) {
    if (BYTES.addAndGet(bytes) <= Runtime.getRuntime().maxMemory() / SHARE) {
      return true;
    }
    BYTES.addAndGet(-bytes);
    return false;
  }

  private static long bits(long hash) {
    long bits = hash & ~IS_PRESENT;
    return bits == 0 ? NO_BITS : bits;
  }

  /** Where a hash is, or the free slot where it would be. */
  private int slotOf(long bits) {
    int mask = slots.length - 1;
    int slot = (int) (bits >>> 32) & mask;
    while (slots[slot] != 0 && (slots[slot] & ~IS_PRESENT) != bits) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }
}
