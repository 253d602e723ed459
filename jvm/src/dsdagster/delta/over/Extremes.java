package dsdagster.delta.over;

import dsdagster.delta.Values;
import dsdagster.delta.aggregate.Call;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.util.function.Function;

/**
 * The smallest or largest value of a frame that rows join at its end and leave at its begin.
 *
 * <p>Rule: a value that is not better than a later one can never be the result again, so it is dropped when the later one
 * comes. What is kept is in order, the best in front: each value is added once and dropped once.
 */
final class Extremes {
  private final OverCall call;
  private final Function<byte[], Object> reader;
  /** By the number of the row, which stands for its time; with the row's arguments. */
  private final TimedRows candidates;
  private TimedRow first;
  private Object best;
  private Object last;

  /** @param reader gives the value of packed arguments */
  Extremes(OverCall call, TimedRows candidates, Function<byte[], Object> reader) {
    this.call = call;
    this.candidates = candidates;
    this.reader = reader;
  }

  /** Its stored form. */
  TimedRows candidates() {
    return candidates;
  }

  /** The one of two values that counts; either may be null. */
  static Object better(OverCall call, Object value, Object current) {
    return value == null || current != null && !isBetter(call, value, current) ? current : value;
  }

  private static boolean isBetter(OverCall call, Object value, Object other) {
    int order = Values.compare(value, other);
    return call.call().function() == Call.Function.MIN ? order < 0 : order > 0;
  }

  /**
   * Adds the value of a row.
   *
   * @param row its number, larger than those before
   * @param arguments packed
   * @param value of the arguments
   */
  void add(long row, byte[] arguments, Object value) {
    if (value == null) {
      return;
    }
    while (!candidates.isEmpty() && !isBetter(call, last(), value)) {
      candidates.removeLast();
      last = null;
    }
    candidates.add(new TimedRow(row, arguments, null));
    last = value;
  }

  private Object last() {
    if (last == null) {
      last = reader.apply(candidates.last().order());
    }
    return last;
  }

  /** The rows before that number have left. */
  void forget(long row) {
    while (candidates.firstTime() < row) {
      candidates.removeFirst();
    }
  }

  void clear() {
    candidates.clear();
    last = null;
  }

  /** Null when all values of the frame are. */
  Object best() {
    if (candidates.isEmpty()) {
      return null;
    }
    TimedRow now = candidates.first();
    if (now != first) {
      first = now;
      best = reader.apply(now.order());
    }
    return best;
  }
}
