package dsdagster.udf;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Parameters of a condition, as text. */
final class Told {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Told() {}

  /** Names and values, alternating. */
  static String of(String... pairs) {
    ObjectNode made = MAPPER.createObjectNode();
    for (int i = 0; i < pairs.length; i += 2) {
      made.put(pairs[i], pairs[i + 1]);
    }
    return made.toString();
  }
}
