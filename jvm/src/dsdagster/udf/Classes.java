package dsdagster.udf;

import dsdagster.OperatorFault;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Class loaders of the user's jars, one per content of a jar: a changed jar is loaded again, without a restart. */
final class Classes {
  private static final ConcurrentHashMap<String, ClassLoader> LOADERS = new ConcurrentHashMap<>();

  private Classes() {}

  /** The class of that name in a jar; classes that it uses are searched in the jar first, then in this process. */
  static Class<?> load(String function, String jar, String digest, String entry) {
    ClassLoader loader = LOADERS.computeIfAbsent(jar + "\n" + digest, key -> open(function, jar, entry));
    try {
      return Class.forName(entry, true, loader);
    } catch (ClassNotFoundException | LinkageError failure) {
      throw unfit(function, entry, "it cannot be loaded (" + failure.getClass().getSimpleName() + ")");
    }
  }

  private static ClassLoader open(String function, String jar, String entry) {
    try {
      URL url = Path.of(jar).toUri().toURL();
      return new URLClassLoader(new URL[] {url}, Classes.class.getClassLoader());
    } catch (IOException failure) {
      throw unfit(function, entry, "its jar cannot be read");
    }
  }

  static OperatorFault unfit(String function, String entry, String reason) {
    return OperatorFault.of("FUNCTION_CLASS_UNFIT", Map.of("function", function, "entry", entry, "reason", reason));
  }
}
