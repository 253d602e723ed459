package dsdagster.delta;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Packed rows of one batch with the sum of their weights, in the order they came. Equal rows have equal bytes, so the
 * bytes stand for the row.
 */
public final class Packed {
  private final Map<ByteBuffer, Long> weights = new LinkedHashMap<>();

  public void add(byte[] row, long weight) {
    weights.merge(ByteBuffer.wrap(row), weight, Long::sum);
  }

  /** Rows whose weights do not cancel; nothing is added after. */
  public Map<ByteBuffer, Long> net() {
    weights.values().removeIf(weight -> weight == 0);
    return weights;
  }
}
