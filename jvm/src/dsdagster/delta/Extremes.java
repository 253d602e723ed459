package dsdagster.delta;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The smallest or largest value of a frame that rows join at its end and leave at its begin.
 *
 * <p>Rule: a value that is not better than a later one can never be the result again, so it is dropped when the later one
 * comes. What is kept is in order, the best in front: each value is added once and dropped once.
 */
final class Extremes {
  private final Call.Function function;
  private final Deque<Candidate> candidates = new ArrayDeque<>();

  /** @param row number of the row that the value is of */
  private record Candidate(long row, Object value) {}

  /** @param function MIN or MAX */
  Extremes(Call.Function function) {
    this.function = function;
  }

  /** Whether a value replaces another; both are not null. */
  static boolean isBetter(Call.Function function, Object value, Object other) {
    int order = Values.compare(value, other);
    return function == Call.Function.MIN ? order < 0 : order > 0;
  }

  /** @param row number of the row, larger than those before */
  void add(long row, Object value) {
    while (!candidates.isEmpty() && !isBetter(function, candidates.getLast().value(), value)) {
      candidates.removeLast();
    }
    candidates.addLast(new Candidate(row, value));
  }

  /** The rows before that number have left. */
  void forget(long row) {
    while (!candidates.isEmpty() && candidates.getFirst().row() < row) {
      candidates.removeFirst();
    }
  }

  /** Null when all values of the frame are. */
  Object best() {
    return candidates.isEmpty() ? null : candidates.getFirst().value();
  }
}
