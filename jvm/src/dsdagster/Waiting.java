package dsdagster;

import java.util.ArrayList;
import java.util.List;
import java.util.function.ToLongFunction;

/** Rows of a key that wait for time, in its order. */
public final class Waiting {
  private Waiting() {}

  /** Removes and returns those before {@code until}. */
  public static <T> List<T> takeBefore(List<T> rows, ToLongFunction<T> time, long until) {
    int count = 0;
    while (count < rows.size() && time.applyAsLong(rows.get(count)) < until) {
      count++;
    }
    if (count == 0) {
      return List.of();
    }
    List<T> head = rows.subList(0, count);
    List<T> due = new ArrayList<>(head);
    head.clear();
    return due;
  }
}
