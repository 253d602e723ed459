package dsdagster.delta.over;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.OperatorFault;
import dsdagster.delta.aggregate.Call;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.DataType;

/**
 * One result of a row from the rows before it.
 *
 * @param kind kind of the result
 * @param call aggregate of a total or an extreme
 * @param argument index among the argument columns
 */
record OverCall(Kind kind, Call call, int argument) implements Serializable {
  /** How a result is computed from the rows of a frame. */
  enum Kind {
    TOTAL,
    EXTREME,
    FIRST_VALUE,
    LAST_VALUE,
    /** The value of the row that many rows before; null if there are fewer rows. */
    LAG
  }

  /** Calls of a JSON list of {@code {"function", "argument", "type"}}. */
  static List<OverCall> read(String json) {
    try {
      List<OverCall> found = new ArrayList<>();
      for (JsonNode node : new ObjectMapper().readTree(json)) {
        String name = node.get("function").asText();
        int argument = node.get("argument").asInt();
        DataType type = DataType.fromJson(node.get("type").toString());
        found.add(made(name, argument, type));
      }
      return found;
    } catch (JsonProcessingException failure) {
      throw new OperatorFault("OPERATOR_SETTINGS", "results over rows are not JSON", failure);
    }
  }

  private static OverCall made(String name, int argument, DataType type) {
    for (Kind kind : Kind.values()) {
      if (kind.name().equals(name)) {
        return new OverCall(kind, new Call(Call.Function.COUNT, argument, false, type), argument);
      }
    }
    Call call = new Call(Call.Function.valueOf(name), argument, false, type);
    return new OverCall(call.function().isExtreme() ? Kind.EXTREME : Kind.TOTAL, call, argument);
  }

  DataType type() {
    return call.type();
  }
}
