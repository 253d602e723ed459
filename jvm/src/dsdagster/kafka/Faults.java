package dsdagster.kafka;

import java.util.concurrent.atomic.AtomicReference;

/**
 * Test hook: fails once at a named point of a batch, for example {@code before-commit@3}; {@code *}: any batch. {@code
 * halt:before-commit@3} ends the process there, as kill -9 does.
 */
public final class Faults {
  private static final AtomicReference<String> NEXT = new AtomicReference<>(System.getProperty("dsdagster.fault", ""));

  private static final String HALT = "halt:";
  private static final int KILLED = 137;

  private Faults() {}

  static boolean isNext(String point, long epoch) {
    String next = NEXT.get();
    String fault = next.startsWith(HALT) ? next.substring(HALT.length()) : next;
    return fault.equals(point + "@" + epoch) || fault.equals(point + "@*");
  }

  /** Sets the next fault; an empty text removes it. */
  public static void set(String fault) {
    NEXT.set(fault);
  }

  static void at(String point, long epoch) {
    if (!isNext(point, epoch)) {
      return;
    }
    String next = NEXT.get();
    if (next.startsWith(HALT)) {
      Runtime.getRuntime().halt(KILLED);
    }
    if (NEXT.compareAndSet(next, "")) {
      throw new IllegalStateException("injected fault " + next);
    }
  }
}
