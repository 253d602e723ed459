package dsdagster.session;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A class loader that remembers which names its parent has no class for.
 *
 * <p>Spark compiles the code it generates for every batch. The compiler asks for a class under every name that may be one
 * ({@code java.lang.index}, {@code references}), in a loader of its own each time, and for a name without a class Java
 * looks into each of the 280 jars of the class path: a twentieth of the processor time of small batches. The class path of
 * a JVM does not change: jars that come later are in loaders below this one.
 */
public final class AbsentClasses extends ClassLoader {
  /** Names that are kept; generated code has some hundred. */
  private static final int MOST_NAMES = 20_000;

  static {
    registerAsParallelCapable();
  }

  private final Set<String> absent = ConcurrentHashMap.newKeySet();

  public AbsentClasses(ClassLoader parent) {
    super(parent);
  }

  /** Put one before the loader of this thread, and of all threads that have the same: new ones inherit it. */
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

  /** Without a stack trace, which takes as long to make as a search. */
  private static final class Absent extends ClassNotFoundException {
    private static final long serialVersionUID = 1;

    Absent(String name) {
      super(name);
    }

    @Override
    public Throwable fillInStackTrace() {
      return this;
    }

    /** As the search itself says it. */
    @Override
    public String toString() {
      return ClassNotFoundException.class.getName() + ": " + getMessage();
    }
  }
}
