package dsdagster.match;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.OperatorFault;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.StructType;

/**
 * The pattern and its settings.
 *
 * @param steps by state, in the order of preference: pairs of a variable and the next state; variable {@link #ACCEPT}
 *     ends a match
 * @param tests conditions by variable
 * @param values results of a match, and values that conditions use
 * @param order fields that order rows with equal times
 * @param skip place where the search continues after a match
 * @param skipVariable variable of the last two kinds of {@code skip}
 * @param withinMicros WITHIN: the last row is less than this later than the first; {@link #NO_LIMIT}: no WITHIN
 * @param ttlMicros event time without a row of the key after which it is forgotten; {@link #NO_LIMIT}: never
 */
record MatchSettings(
    int[][] steps,
    List<Test> tests,
    List<Value> values,
    List<RowOrder> order,
    Skip skip,
    int skipVariable,
    long withinMicros,
    long ttlMicros)
    implements Serializable {
  static final int ACCEPT = -1;
  static final long NO_LIMIT = -1;

  /** Where the search continues after a match. */
  enum Skip {
    PAST_LAST,
    TO_NEXT,
    TO_FIRST,
    TO_LAST
  }

  /**
   * A condition on a row.
   *
   * @param field boolean field of the row; negative: no field
   * @param condition index of a condition over row and values; negative: no condition
   * @param needs values that the condition uses
   */
  record Test(int field, int condition, int[] needs) implements Serializable {}

  /** A field that orders rows with equal times, nulls first (last if descending). */
  record RowOrder(int field, boolean descending) implements Serializable {}

  /** Settings of a JSON object with these names in snake_case. */
  static MatchSettings read(String json) {
    try {
      JsonNode root = new ObjectMapper().readTree(json);
      int[][] steps = new int[root.get("steps").size()][];
      for (int i = 0; i < steps.length; i++) {
        steps[i] = numbers(root.get("steps").get(i));
      }
      List<Test> tests = new ArrayList<>();
      root.get("tests")
          .forEach(
              node ->
                  tests.add(
                      new Test(node.get("field").asInt(), node.get("condition").asInt(), numbers(node.get("needs")))));
      List<Value> values = new ArrayList<>();
      root.get("values").forEach(node -> values.add(Value.read(node)));
      List<RowOrder> order = new ArrayList<>();
      root.get("order")
          .forEach(node -> order.add(new RowOrder(node.get("field").asInt(), node.get("descending").asBoolean())));
      return new MatchSettings(
          steps,
          tests,
          values,
          order,
          Skip.valueOf(root.get("skip").asText()),
          root.get("skip_variable").asInt(),
          root.get("within_micros").asLong(),
          root.get("ttl_micros").asLong());
    } catch (JsonProcessingException failure) {
      throw new OperatorFault("OPERATOR_SETTINGS", "a pattern is not JSON", failure);
    }
  }

  private static int[] numbers(JsonNode list) {
    int[] found = new int[list.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = list.get(i).asInt();
    }
    return found;
  }

  StructType valueTypes() {
    StructType found = new StructType();
    for (int i = 0; i < values.size(); i++) {
      found = found.add("v" + i, values.get(i).type());
    }
    return found;
  }

  /** By variable: the number of its first or last rows that values and {@link #skip} use. */
  int[] kept(Value.Function end) {
    int[] most = new int[tests.size()];
    for (Value value : values) {
      if (value.function() == end && value.variable() != Value.ALL) {
        most[value.variable()] = Math.max(most[value.variable()], value.offset() + 1);
      }
    }
    if (skip == (end == Value.Function.FIRST ? Skip.TO_FIRST : Skip.TO_LAST)) {
      most[skipVariable] = Math.max(most[skipVariable], 1);
    }
    return most;
  }

  boolean isLimited() {
    return withinMicros != NO_LIMIT;
  }

  boolean forgets() {
    return ttlMicros != NO_LIMIT;
  }

  /** Whether no test uses rows of the match: whether a row fits then does not depend on the path to it. */
  boolean isPlain() {
    return tests.stream().allMatch(test -> test.condition() < 0);
  }
}
