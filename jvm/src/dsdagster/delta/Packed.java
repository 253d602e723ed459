package dsdagster.delta;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Packed rows of one batch with the sum of their weights, in the order of arrival. Equal rows have equal bytes, so the
 * bytes identify the row.
 */
public final class Packed {
  private final Map<ByteBuffer, Long> weights = new LinkedHashMap<>();

  public void add(byte[] row, long weight) {
    weights.merge(ByteBuffer.wrap(row), weight, Long::sum);
  }

  /** Rows whose sum of weights is not zero. No row may be added afterwards. */
  public Map<ByteBuffer, Long> net() {
    weights.values().removeIf(weight -> weight == 0);
    return weights;
  }
}
