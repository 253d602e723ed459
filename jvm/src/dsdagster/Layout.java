package dsdagster;

import java.nio.ByteBuffer;

/**
 * Byte arrays inside of one value of the state store: each after its length; null is a length of -1.
 *
 * <p>Rule: the first byte of such a value is the number of its layout; an unknown number is refused.
 */
public final class Layout {
  private static final int NULL_LENGTH = -1;
  /** Largest length of an array that every JVM allows. */
  private static final long MOST = Integer.MAX_VALUE - 8;

  private Layout() {}

  /**
   * A buffer over a value, positioned after the number of its layout.
   *
   * @param what owner of the state, for messages
   */
  public static ByteBuffer open(byte[] value, byte layout, String what) {
    ByteBuffer in = ByteBuffer.wrap(value);
    byte found = in.get();
    if (found != layout) {
      throw new OperatorFault("STATE_LAYOUT_UNKNOWN", what + " has layout " + found);
    }
    return in;
  }

  /**
   * A buffer for a value, with the number of its layout already written.
   *
   * @param size bytes of the whole value
   * @param what owner of the state, for messages
   */
  public static ByteBuffer create(long size, byte layout, String what) {
    if (size > MOST) {
      throw new OperatorFault("STATE_TOO_LARGE", what + ": " + size + " bytes under one key");
    }
    return ByteBuffer.allocate((int) size).put(layout);
  }

  public static long size(byte[] bytes) {
    return Integer.BYTES + (bytes == null ? 0 : bytes.length);
  }

  public static void put(ByteBuffer out, byte[] bytes) {
    if (bytes == null) {
      out.putInt(NULL_LENGTH);
    } else {
      out.putInt(bytes.length).put(bytes);
    }
  }

  public static byte[] get(ByteBuffer in) {
    int length = in.getInt();
    if (length == NULL_LENGTH) {
      return null;
    }
    byte[] found = new byte[length];
    in.get(found);
    return found;
  }
}
