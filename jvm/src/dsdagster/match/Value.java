package dsdagster.match;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import org.apache.spark.sql.types.DataType;

/**
 * A value over the rows of a match so far.
 *
 * @param function FIRST and LAST: {@code field} of the row that is {@code offset} after the variable's first or before
 *     its last row; ROWTIME: the time of the last row; others: aggregates
 * @param variable variable of the rows; negative: all rows
 * @param field field of the row; negative for COUNT(*) and ROWTIME
 * @param type type of the result; equal to the field's type except for COUNT and AVG
 * @param isTested whether a condition uses it, so that it is needed for every row that is tried
 */
record Value(Function function, int variable, int field, int offset, DataType type, boolean isTested)
    implements Serializable {
  static final int ALL = -1;

  /** The computation. */
  enum Function {
    FIRST,
    LAST,
    COUNT,
    SUM,
    AVG,
    MIN,
    MAX,
    ROWTIME
  }

  static Value read(JsonNode node) {
    return new Value(
        Function.valueOf(node.get("function").asText()),
        node.get("variable").asInt(),
        node.get("field").asInt(),
        node.get("offset").asInt(),
        DataType.fromJson(node.get("type").toString()),
        node.get("tested").asBoolean());
  }

  boolean isAggregate() {
    return function != Function.FIRST && function != Function.LAST && function != Function.ROWTIME;
  }

  boolean takes(int mapped) {
    return variable == ALL || variable == mapped;
  }
}
