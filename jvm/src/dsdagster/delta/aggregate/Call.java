package dsdagster.delta.aggregate;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.OperatorFault;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.DataType;

/**
 * One aggregate of a group.
 *
 * @param function aggregate function
 * @param argument index among the argument columns; negative for COUNT(*)
 * @param distinct whether each value counts once
 * @param type type of the result
 */
public record Call(Function function, int argument, boolean distinct, DataType type) implements Serializable {
  /** Aggregate functions, over the values of the argument that are not null. */
  public enum Function {
    COUNT,
    SUM,
    AVG,
    MIN,
    MAX,
    VAR_POP,
    VAR_SAMP,
    STDDEV_POP,
    STDDEV_SAMP,
    ARRAY_AGG;

    public boolean isExtreme() {
      return this == MIN || this == MAX;
    }

    boolean isSpread() {
      return this == VAR_POP || this == VAR_SAMP || this == STDDEV_POP || this == STDDEV_SAMP;
    }
  }

  /** Whether every value has to be kept with its count: to retract it, or to know whether it is new. */
  boolean needsValues(boolean appendOnly) {
    return distinct || function == Function.ARRAY_AGG || function.isExtreme() && !appendOnly;
  }

  /** Calls of a JSON list of {@code {"function", "argument", "distinct", "type"}}. */
  static List<Call> read(String json) {
    try {
      List<Call> found = new ArrayList<>();
      for (JsonNode node : new ObjectMapper().readTree(json)) {
        found.add(
            new Call(
                Function.valueOf(node.get("function").asText()),
                node.get("argument").asInt(),
                node.get("distinct").asBoolean(),
                DataType.fromJson(node.get("type").toString())));
      }
      return found;
    } catch (JsonProcessingException failure) {
      throw new OperatorFault("OPERATOR_SETTINGS", "aggregates are not JSON", failure);
    }
  }
}
