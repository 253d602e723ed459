package dsdagster.record;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.Expressions;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Tells what is wrong with a decoded JSON value.
 *
 * <p>One call whatever the number of columns: written as Spark expressions the test of every column would be analysed,
 * optimized and planned anew with every batch.
 */
public final class JsonCheck implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private final String[] names;
  private final String[] types;
  private final boolean[] nullable;

  private JsonCheck(String[] names, String[] types, boolean[] nullable) {
    this.names = names;
    this.types = types;
    this.nullable = nullable;
  }

  /**
   * A reason as text, null for a good record.
   *
   * @param value struct of the columns in order, behind them the record's text if it could not be decoded, else null
   */
  public static Column column(Column value, List<String> names, List<String> types, List<Boolean> nullable) {
    boolean[] mayBeNull = new boolean[nullable.size()];
    for (int column = 0; column < mayBeNull.length; column++) {
      mayBeNull[column] = nullable.get(column);
    }
    JsonCheck check = new JsonCheck(names.toArray(new String[0]), types.toArray(new String[0]), mayBeNull);
    return Expressions.callWithNulls(check, "problem", DataTypes.StringType, value);
  }

  public UTF8String problem(InternalRow value) {
    if (value == null) {
      return UTF8String.fromString("the value is empty");
    }
    if (!value.isNullAt(names.length)) {
      return UTF8String.fromString(mismatch(value, value.getUTF8String(names.length).toString()));
    }
    for (int column = 0; column < names.length; column++) {
      if (!nullable[column] && value.isNullAt(column)) {
        return UTF8String.fromString("column " + names[column] + " is NULL");
      }
    }
    return null;
  }

  /** Names the columns whose JSON is of another type; never a value. */
  private String mismatch(InternalRow value, String text) {
    JsonNode found = parsed(text);
    StringBuilder listed = new StringBuilder();
    for (int column = 0; column < names.length; column++) {
      JsonNode written = found.get(names[column]);
      if (written != null && !written.isNull() && value.isNullAt(column)) {
        listed.append(listed.length() == 0 ? "" : ", ").append(names[column]).append(' ').append(types[column]);
      }
    }
    return listed.length() == 0
        ? "the value is no JSON object of the declared types"
        : "the JSON has another type for: " + listed;
  }

  private static JsonNode parsed(String text) {
    try {
      return MAPPER.readTree(text);
    } catch (JsonProcessingException failure) {
      return MAPPER.missingNode();
    }
  }

  @Override
  public String toString() {
    return "json_check";
  }
}
