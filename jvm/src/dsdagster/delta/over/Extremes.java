package dsdagster.delta.over;

import dsdagster.delta.Values;
import dsdagster.delta.aggregate.Call;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.util.function.Function;

/**
 * The smallest or largest value of a frame: rows enter it at its end and leave it at its beginning.
 *
 * <p>Rule: a value that is not better than a later value can never become the result, so it is dropped when the later
 * value arrives. The kept values are ordered, the best first: each value is added once and dropped once.
 */
final class Extremes {
  private final OverCall call;
  private final Function<byte[], Object> reader;
  /** Kept rows with their arguments, by row number instead of time. */
  private final TimedRows candidates;
  private TimedRow first;
  private Object best;
  private Object last;

  /** @param reader reads the value from packed arguments */
  Extremes(OverCall call, TimedRows candidates, Function<byte[], Object> reader) {
    this.call = call;
    this.candidates = candidates;
    this.reader = reader;
  }

  /** The kept rows, for storing. */
  TimedRows candidates() {
    return candidates;
  }

  /** The better of two values; either may be null. */
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
   * @param row number of the row, larger than all before
   * @param arguments packed arguments of the row
   * @param value value in the arguments
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

  /** Forgets the rows before that number: they have left the frame. */
  void forget(long row) {
    while (candidates.firstTime() < row) {
      candidates.removeFirst();
    }
  }

  void clear() {
    candidates.clear();
    last = null;
  }

  /** The result; null if all values of the frame are null. */
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
