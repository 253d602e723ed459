package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * Offsets of any source as partition → position.
 *
 * <p>Rules: {@code {"topic": {"0": 12}}} is keyed by the inner name when there is one outer name, else by {@code
 * outer/inner}; {@code {"a": 12}} by its names; a bare value is partition {@code 0}. Positions compare as numbers when
 * both are numbers, otherwise only equality is known.
 */
public final class Positions {
  private static final Set<String> COUNTED = Set.of("KafkaSourceOffset", "LongOffset");
  private static final String ONLY = "0";

  private Positions() {}

  static Map<String, String> of(String json) {
    JsonNode root = Json.read(json);
    Map<String, String> found = new LinkedHashMap<>();
    if (!root.isObject()) {
      found.put(ONLY, root.toString());
      return found;
    }
    boolean nested = root.size() > 0;
    for (JsonNode inner : root) {
      nested &= inner.isObject();
    }
    for (Map.Entry<String, JsonNode> entry : root.properties()) {
      if (!nested) {
        found.put(entry.getKey(), entry.getValue().toString());
        continue;
      }
      String prefix = root.size() == 1 ? "" : entry.getKey() + "/";
      entry.getValue().properties().forEach(leaf -> found.put(prefix + leaf.getKey(), leaf.getValue().toString()));
    }
    return found;
  }

  /** Whether a reader at {@code position} (null: at the beginning) has passed everything before {@code end}. */
  static boolean reached(String position, String end) {
    Long there = number(end);
    if (there == null) {
      return end.equals(position);
    }
    Long here = position == null ? Long.valueOf(0) : number(position);
    return here != null && here >= there;
  }

  /** Number of records between two positions; 0 if positions are not numbers. */
  static long distance(String position, String end) {
    Long there = number(end);
    Long here = position == null ? Long.valueOf(0) : number(position);
    return there == null || here == null ? 0 : Math.max(0, there - here);
  }

  /** Number of records between two offsets of a source; empty if its offsets do not tell. Kafka's and memory's do. */
  public static OptionalLong records(Offset start, Offset end) {
    if (end instanceof TickOffset) {
      return OptionalLong.of(1);
    }
    if (!COUNTED.contains(end.getClass().getSimpleName())) {
      return OptionalLong.empty();
    }
    Map<String, String> from = start == null ? Map.of() : of(start.json());
    long sum = 0;
    for (Map.Entry<String, String> position : of(end.json()).entrySet()) {
      sum += distance(from.get(position.getKey()), position.getValue());
    }
    return OptionalLong.of(sum);
  }

  private static Long number(String text) {
    try {
      return Long.valueOf(text);
    } catch (NumberFormatException other) {
      return null;
    }
  }
}
