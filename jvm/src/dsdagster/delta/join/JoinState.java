package dsdagster.delta.join;

import dsdagster.Layout;
import dsdagster.delta.Expiry;
import dsdagster.delta.HeldWeights;
import dsdagster.delta.StoredWeights;
import dsdagster.delta.Weights;
import dsdagster.state.Buckets;
import dsdagster.state.StoredMaps;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * State of one key of a join of changelogs: the rows of each side with their counts, and the number of rows of each
 * side.
 *
 * <p>Rule: while there are few rows, all are in one value, the head. Once there are many, the head has only the
 * numbers, and each row is a value of its own, until no row is left. With a time to live there is no head, since each
 * row expires separately. A key without a head may come from a checkpoint of an earlier version.
 */
final class JoinState {
  private static final byte LAYOUT = 1;
  private static final String WHAT = "state of a join";
  private static final StructType COUNTS =
      new StructType().add("left", DataTypes.LongType).add("right", DataTypes.LongType);

  /** Packed rows of the left side with their counts. */
  Weights<ByteBuffer> left;
  /** Packed rows of the right side with their counts; empty if the right side is only counted. */
  Weights<ByteBuffer> right;
  long leftCount;
  long rightCount;

  private final JoinKind kind;
  private final boolean forgets;
  private final int limit = Buckets.smallLimit();
  private final ValueState<byte[]> head;
  private final MapState<byte[], Long> leftRows;
  private final MapState<byte[], Long> rightRows;
  private final StoredWeights<ByteBuffer, byte[]> storedLeft;
  private final StoredWeights<ByteBuffer, byte[]> storedRight;
  /** Whether the store had rows as values of their own when it was opened; null: not looked for yet. */
  private Boolean hadRows;
  /** The numbers of keys from checkpoints without heads. */
  private final ValueState<Row> counts;
  private boolean isKnown;
  /** The numbers of a head without rows. */
  private long[] numbers;

  JoinState(StatefulProcessorHandle handle, JoinKind kind, Expiry expiry) {
    this.kind = kind;
    forgets = expiry.isSet();
    leftRows = rows(handle, "left", expiry);
    rightRows = kind.pairs || forgets ? rows(handle, "right", expiry) : null;
    storedLeft = weights(leftRows, expiry);
    storedRight = rightRows == null ? null : weights(rightRows, expiry);
    counts = kind.counts() && !forgets ? handle.getValueState("counts", Encoders.row(COUNTS), expiry.config()) : null;
    head = forgets ? null : handle.getValueState("head", Encoders.BINARY(), expiry.config());
  }

  private static MapState<byte[], Long> rows(StatefulProcessorHandle handle, String name, Expiry expiry) {
    return handle.getMapState(name, Encoders.BINARY(), Encoders.LONG(), expiry.config());
  }

  private static StoredWeights<ByteBuffer, byte[]> weights(MapState<byte[], Long> rows, Expiry expiry) {
    return new StoredWeights<>(rows, ByteBuffer::array, ByteBuffer::wrap, expiry);
  }

  /** Reads the state of Spark's current key. */
  void open() {
    if (forgets) {
      useStored();
      if (kind.counts()) {
        leftCount = total(left);
        rightCount = total(right);
      }
      return;
    }
    byte[] known = head.get();
    isKnown = known != null;
    numbers = null;
    if (isKnown) {
      decode(Layout.open(known, LAYOUT, WHAT));
    } else {
      takeEarlier();
    }
  }

  private void useStored() {
    left = storedLeft;
    right = storedRight == null ? held() : storedRight;
  }

  private static HeldWeights<ByteBuffer> held() {
    return new HeldWeights<>(ByteBuffer::array);
  }

  private void decode(ByteBuffer in) {
    leftCount = in.getLong();
    rightCount = in.getLong();
    if (!in.hasRemaining()) {
      numbers = new long[] {leftCount, rightCount};
      useStored();
      return;
    }
    Function<ByteBuffer, byte[]> pack = ByteBuffer::array;
    left = HeldWeights.get(in, pack, ByteBuffer::wrap);
    right = HeldWeights.get(in, pack, ByteBuffer::wrap);
  }

  /**
   * Reads the state of a key without a head from an earlier checkpoint, if there is any. A look for the rows of one key
   * costs as much as the rest of its visit, so it is left out if the store had no rows as values of their own at all.
   */
  private void takeEarlier() {
    Row before = counts == null ? null : counts.get();
    boolean isEarlier = before != null || counts == null && hadRows() && hasRows();
    if (!isEarlier) {
      left = held();
      right = held();
      leftCount = 0;
      rightCount = 0;
      return;
    }
    useStored();
    leftCount = before == null ? total(left) : before.getLong(0);
    rightCount = before == null ? total(right) : before.getLong(1);
    if (before != null) {
      counts.clear();
    }
  }

  private boolean hadRows() {
    if (hadRows == null) {
      hadRows = !StoredMaps.isEmpty(leftRows) || !StoredMaps.isEmpty(rightRows);
    }
    return hadRows;
  }

  private boolean hasRows() {
    return storedLeft.iterator().hasNext() || storedRight.iterator().hasNext();
  }

  private static long total(Weights<ByteBuffer> rows) {
    long total = 0;
    Iterator<Map.Entry<ByteBuffer, Long>> all = rows.iterator();
    while (all.hasNext()) {
      total += all.next().getValue();
    }
    return total;
  }

  /** Writes the changes. */
  void close() {
    if (forgets) {
      return;
    }
    if (leftCount == 0 && rightCount == 0) {
      if (isKnown) {
        head.clear();
      }
    } else if (numbers == null || numbers[0] != leftCount || numbers[1] != rightCount) {
      head.update(encode());
    }
  }

  private byte[] encode() {
    if (left instanceof HeldWeights<ByteBuffer> few && right instanceof HeldWeights<ByteBuffer> others) {
      long size = 1 + 2 * Long.BYTES + few.encodedSize() + others.encodedSize();
      if (size <= limit) {
        ByteBuffer out = numbers(size);
        few.put(out);
        others.put(out);
        return out.array();
      }
      few.moveTo(storedLeft);
      if (storedRight != null) {
        others.moveTo(storedRight);
      }
    }
    return numbers(1 + 2 * Long.BYTES).array();
  }

  private ByteBuffer numbers(long size) {
    return Layout.create(size, LAYOUT, WHAT).putLong(leftCount).putLong(rightCount);
  }
}
