package dsdagster.json;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import dsdagster.Expressions;
import java.io.IOException;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes JSON records, one object each, as Jackson and Flink read them: strict JSON, values by their text. If a field
 * occurs several times, the last one is used; fields without a column are skipped, but have to be valid JSON. Usual
 * records are read straight from their bytes ({@link JsonQuick}). Jackson reads the others ({@link JsonReaders}), so it
 * decides what is valid. One instance per task.
 */
public final class JsonDecoder implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final JsonFactory FACTORY =
      JsonFactory.builder()
          .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
          .enable(StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION) // to read an object's characters into a VARCHAR
          .build();

  private final StructType columns;
  private final String[] types;
  private final String part;
  private transient JsonQuick.Struct quick;
  private transient JsonBytes in;
  private transient JsonReaders.Struct reader;

  private JsonDecoder(StructType columns, String[] types, String part) {
    this.columns = columns;
    this.types = types;
    this.part = part;
  }

  /**
   * A struct of the columns and, as its last field, the reason why the record cannot be read (null for a good record);
   * null for null.
   *
   * @param bytes key or value of the record
   * @param columns JSON of a struct type; a field that is not nullable has to be there
   * @param types types of the columns in SQL, for reasons
   * @param reason name of the last field
   * @param part value or key, for reasons
   */
  public static Column column(Column bytes, String columns, List<String> types, String reason, String part) {
    StructType wanted = (StructType) DataType.fromJson(columns);
    StructType made = new StructType();
    for (StructField field : wanted.fields()) {
      made = made.add(field.name(), field.dataType(), true);
    }
    JsonDecoder decoder = new JsonDecoder(wanted, types.toArray(new String[0]), part);
    return Expressions.callWithNulls(decoder, "decode", made.add(reason, DataTypes.StringType, true), bytes);
  }

  public InternalRow decode(byte[] bytes) {
    if (bytes == null) {
      return null;
    }
    Object[] values = new Object[columns.size() + 1];
    String reason;
    if (isQuick(bytes, values)) {
      reason = judged(values);
    } else {
      values = new Object[values.length];
      reason = read(bytes, values);
    }
    if (reason != null) {
      values = new Object[values.length];
      values[columns.size()] = UTF8String.fromString(reason);
    }
    return new GenericInternalRow(values);
  }

  private boolean isQuick(byte[] bytes, Object[] values) {
    if (quick == null) {
      quick = new JsonQuick.Struct(columns);
      in = new JsonBytes();
    }
    in.begin(bytes);
    return quick.fill(in, values) && in.next() == 0 && in.at == bytes.length;
  }

  private String read(byte[] bytes, Object[] values) {
    reader = reader == null ? new JsonReaders.Struct(columns) : reader;
    try (JsonParser in = FACTORY.createParser(bytes)) {
      JsonToken first = in.nextToken();
      if (first != JsonToken.START_OBJECT) {
        return "the " + part + (first == null ? " is empty" : " is not a JSON object");
      }
      reader.fill(in, values);
      return in.nextToken() == null ? judged(values) : "more text follows the JSON object";
    } catch (IOException refused) {
      return "the " + part + " is not valid JSON";
    }
  }

  /** The reason, with the names of columns whose JSON has another type; it contains no values. */
  private String judged(Object[] values) {
    StringBuilder wrong = new StringBuilder();
    String missing = null;
    StructField[] fields = columns.fields();
    for (int column = 0; column < fields.length; column++) {
      if (values[column] == JsonReaders.WRONG) {
        wrong.append(wrong.length() == 0 ? "" : ", ").append(fields[column].name()).append(' ').append(types[column]);
      } else if (values[column] == null && !fields[column].nullable() && missing == null) {
        missing = "column " + fields[column].name() + " is NULL";
      }
    }
    return wrong.length() == 0 ? missing : "the JSON has another type for: " + wrong;
  }

  @Override
  public String toString() {
    return "json_decode" + List.of(columns.fieldNames());
  }
}
