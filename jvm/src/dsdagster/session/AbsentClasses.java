package dsdagster.session;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A class loader that remembers which names its parent has no class for.
 *
 * <p>Spark compiles the code it generates for every batch. The compiler asks for a class for every name that may be
 * one ({@code java.lang.index}, {@code references}), with a new loader each time, and for a name without a class Java
 * searches each of the 280 jars of the class path: a twentieth of the processor time of small batches. The class path
 * of a JVM does not change: jars that are added later are in loaders below this one.
 */
public final class AbsentClasses extends ClassLoader {
  /** Largest number of remembered names; generated code has some hundred. */
  private static final int MOST_NAMES = 20_000;

  static {
    registerAsParallelCapable();
  }

  private final Set<String> absent = ConcurrentHashMap.newKeySet();

  public AbsentClasses(ClassLoader parent) {
    super(parent);
  }

  /** Installs one for this thread and for all threads with the same loader; new threads inherit it. */
  public static void install() {
    ClassLoader before = Thread.currentThread().getContextClassLoader();
    if (before instanceof AbsentClasses) {
      return;
    }
    ClassLoader remembering = new AbsentClasses(before);
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getContextClassLoader() == before) {
        thread.setContextClassLoader(remembering);
      }
    }
  }

  @Override
  protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
    if (absent.contains(name)) {
      throw new Absent(name);
    }
    try {
      return getParent().loadClass(name);
    } catch (ClassNotFoundException missing) {
      if (absent.size() < MOST_NAMES) {
        absent.add(name);
      }
      throw missing;
    }
  }

  /** Has no stack trace, since creating one takes as long as a search. */
  private static final class Absent extends ClassNotFoundException {
    private static final long serialVersionUID = 1;

    Absent(String name) {
      super(name);
    }

    @Override
    public Throwable fillInStackTrace() {
      return this;
    }

    /** The message of the search itself. */
    @Override
    public String toString() {
      return ClassNotFoundException.class.getName() + ": " + getMessage();
    }
  }
}
