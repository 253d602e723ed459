package dsdagster.scalar;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A path {@code $.name[0]['other'][*]} as names, places and {@link #EACH}, with or without {@code lax} before it. */
final class JsonPath {
  /** All elements of an array. */
  static final Object EACH = new Object();

  private static final int KEPT_PATHS = 64;
  private static final Pattern STEP =
      Pattern.compile(
          "\\.([^.\\[\\]\\s'\"*()?@$]+)|\\[\\s*(?:'([^']+)'|\"([^\"']+)\"|(\\d{1,9})|(\\*))\\s*\\]");
  private static final Pattern LAX = Pattern.compile("^\\s*(?i:lax)\\s+");
  private static final ThreadLocal<Map<String, List<Object>>> PATHS = ThreadLocal.withInitial(HashMap::new);

  private JsonPath() {}

  /** The steps of a path; null if it is not a valid path. */
  static List<Object> of(String text) {
    Map<String, List<Object>> paths = PATHS.get();
    if (paths.containsKey(text)) {
      return paths.get(text);
    }
    if (paths.size() >= KEPT_PATHS) {
      paths.clear(); // only paths that are data fill the cache
    }
    List<Object> steps = steps(LAX.matcher(text).replaceFirst("").strip());
    paths.put(text, steps);
    return steps;
  }

  private static List<Object> steps(String path) {
    if (!path.startsWith("$")) {
      return null;
    }
    List<Object> steps = new ArrayList<>();
    Matcher step = STEP.matcher(path);
    int at = 1;
    while (at < path.length()) {
      if (!step.find(at) || step.start() != at) {
        return null;
      }
      steps.add(step(step));
      at = step.end();
    }
    return steps;
  }

  private static Object step(Matcher step) {
    if (step.group(4) != null) {
      return Integer.valueOf(step.group(4));
    }
    if (step.group(5) != null) {
      return EACH;
    }
    return step.group(1) != null ? step.group(1) : step.group(2) != null ? step.group(2) : step.group(3);
  }
}
