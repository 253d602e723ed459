package dsdagster.time;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dsdagster.OperatorFault;

/** Reads and writes the small JSON texts of clocks. */
final class Json {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  static JsonNode read(String text) {
    try {
      return MAPPER.readTree(text);
    } catch (JsonProcessingException failure) {
      throw new OperatorFault("CLOCK_JSON", "not JSON: " + text, failure);
    }
  }

  static String write(JsonNode node) {
    return node.toString();
  }

  static ObjectNode object() {
    return MAPPER.createObjectNode();
  }
}
