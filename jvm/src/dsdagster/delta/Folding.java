package dsdagster.delta;

import dsdagster.OperatorFault;
import java.nio.ByteBuffer;
import java.util.Map;

/**
 * The additions and retractions of one key in one batch, which become at most one upsert or delete.
 *
 * <p>Rule: a key has at most one row at a time, so what a batch adds and retracts is enough to know the row that it has
 * then. A delete carries the row that is gone.
 */
public final class Folding {
  private byte[] only;
  private long weight;
  private Packed several;
  private byte[] row;
  private boolean isDelete;

  /** Begins another key. */
  public void clear() {
    only = null;
    several = null;
    row = null;
  }

  /** A row of the key, packed, and how many copies of it are added, or retracted if negative. */
  public void add(byte[] packed, long copies) {
    if (only == null) {
      only = packed;
      weight = copies;
      return;
    }
    if (several == null) {
      several = new Packed();
      several.add(only, weight);
    }
    several.add(packed, copies);
  }

  /** Ends the key: returns whether it has changed. */
  public boolean end() {
    if (several == null) {
      take(only, weight);
    } else {
      end(several.net());
    }
    return row != null;
  }

  private void end(Map<ByteBuffer, Long> net) {
    byte[] gone = null;
    for (Map.Entry<ByteBuffer, Long> entry : net.entrySet()) {
      if (entry.getValue() < 0) {
        gone = entry.getKey().array();
      } else if (row != null) {
        throw notUnique();
      } else {
        take(entry.getKey().array(), entry.getValue());
      }
    }
    if (row == null && gone != null) {
      take(gone, -1);
    }
  }

  private void take(byte[] packed, long copies) {
    if (copies > 1) {
      throw notUnique();
    }
    row = packed;
    isDelete = copies < 0;
  }

  private static OperatorFault notUnique() {
    return new OperatorFault("KEY_NOT_UNIQUE", "a key has several rows at once");
  }

  /** The row that is upserted or deleted, packed. */
  public byte[] row() {
    return row;
  }

  /** Whether the row is deleted. */
  public boolean isDelete() {
    return isDelete;
  }
}
