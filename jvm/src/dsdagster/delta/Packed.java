package dsdagster.delta;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Packed rows of one batch with the sum of their weights, in the order they came. Equal rows have equal bytes, so the
 * bytes stand for the row.
 */
final class Packed {
  private final Map<ByteBuffer, long[]> weights = new LinkedHashMap<>();

  void add(byte[] row, long weight) {
    weights.computeIfAbsent(ByteBuffer.wrap(row), unused -> new long[1])[0] += weight;
  }

  /** Rows whose weights do not cancel. */
  Map<byte[], Long> net() {
    Map<byte[], Long> found = new LinkedHashMap<>();
    weights.forEach((row, weight) -> {
      if (weight[0] != 0) {
        found.put(row.array(), weight[0]);
      }
    });
    return found;
  }
}
