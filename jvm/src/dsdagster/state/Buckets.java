package dsdagster.state;

import dsdagster.Layout;
import dsdagster.OperatorFault;
import java.nio.ByteBuffer;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;

/**
 * The buckets of rows of an operator's keys in the state store, see {@link TimedRows}.
 *
 * <p>Rule: the buckets are those of Spark's current key.
 */
public final class Buckets {
  /** System property for tests: bytes of rows after which a bucket is split. */
  private static final String LIMIT = "ds.state.bucket.bytes";
  private static final int USUAL_LIMIT = 32 * 1024;
  private static final int SHARE_OF_SMALL = 8;
  /** Largest number of bytes of a list's rows in memory, as a multiple of {@link #limit}. */
  private static final int HELD = 128;
  private static final byte LAYOUT = 1;
  private static final String WHAT = "rows of a key";

  private final MapState<Long, byte[]> stored;
  private final int limit = usualLimit();

  public Buckets(StatefulProcessorHandle handle) {
    stored = handle.getMapState("buckets", Encoders.LONG(), Encoders.BINARY(), TTLConfig.NONE());
  }

  /** Default of {@link #limit}. */
  public static int usualLimit() {
    return Integer.getInteger(LIMIT, USUAL_LIMIT);
  }

  /**
   * Largest number of bytes of things (found by value, not by time) that are stored in the key's own value. It is
   * small, since the whole value is read and written when one thing changes.
   */
  public static int smallLimit() {
    return usualLimit() / SHARE_OF_SMALL;
  }

  /** Bytes of rows after which a bucket is split; a list that is not larger has no buckets. */
  public int limit() {
    return limit;
  }

  /** Bytes of rows in memory above which buckets of a list are written and released. */
  long mostHeld() {
    return (long) HELD * limit;
  }

  ByteBuffer read(long id) {
    byte[] found = stored.getValue(id);
    if (found == null) {
      throw new OperatorFault("INTERNAL", "a bucket of rows is not in the state store");
    }
    return Layout.open(found, LAYOUT, WHAT);
  }

  void write(long id, Bucket bucket) {
    ByteBuffer out = Layout.create(1 + bucket.encodedSize(), LAYOUT, WHAT);
    bucket.put(out);
    stored.updateValue(id, out.array());
  }

  void remove(long id) {
    stored.removeKey(id);
  }
}
