package dsdagster.kafka;

import java.util.concurrent.atomic.AtomicReference;

/** Test hook: fails once at a named point of a batch, for example {@code before-commit@3}; {@code *}: any batch. */
public final class Faults {
  private static final AtomicReference<String> NEXT = new AtomicReference<>(System.getProperty("dsdagster.fault", ""));

  private Faults() {}

  /** Sets the next fault; an empty text removes it. */
  public static void set(String fault) {
    NEXT.set(fault);
  }

  static void at(String point, long epoch) {
    String next = NEXT.get();
    if (next.isEmpty() || !(next.equals(point + "@" + epoch) || next.equals(point + "@*"))) {
      return;
    }
    if (NEXT.compareAndSet(next, "")) {
      throw new IllegalStateException("injected fault " + next);
    }
  }
}
