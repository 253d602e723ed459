package dsdagster.json;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Readers that turn JSON values into Spark's values of a declared type, also nested values. They read whatever is valid
 * and tell values of another type; {@link JsonQuick} reads most records before them.
 */
final class JsonReaders {
  /** A reader's result for a value of another type; the reader has consumed the value. */
  static final Object WRONG = new Object();

  private JsonReaders() {}

  /** Reads the parser's current value, to its last token. */
  interface Reader {
    Object read(JsonParser in) throws IOException;
  }

  static Reader of(DataType type) {
    if (type instanceof ArrayType array) {
      return new Elements(of(array.elementType()));
    }
    if (type instanceof MapType map) {
      return new Entries(JsonScalars.of(map.keyType()), of(map.valueType()));
    }
    if (type instanceof StructType struct) {
      return new Struct(struct);
    }
    return type instanceof StringType ? JsonReaders::text : new Value(JsonScalars.of(type));
  }

  /** Any value as text: the content of a string, the original characters of every other value. */
  private static Object text(JsonParser in) throws IOException {
    if (in.currentToken() == JsonToken.VALUE_NULL) {
      return null;
    }
    if (!in.currentToken().isStructStart()) {
      return UTF8String.fromString(in.getText());
    }
    long start = in.currentTokenLocation().getByteOffset();
    Object source = in.currentTokenLocation().contentReference().getRawContent();
    in.skipChildren();
    long end = in.currentLocation().getByteOffset();
    if (!(source instanceof byte[] bytes) || start < 0 || end > bytes.length) {
      return WRONG;
    }
    return UTF8String.fromBytes(Arrays.copyOfRange(bytes, (int) start, (int) end));
  }

  private static boolean begins(JsonParser in, JsonToken token) throws IOException {
    boolean begins = in.currentToken() == token;
    if (!begins) {
      in.skipChildren();
    }
    return begins;
  }

  private record Value(JsonScalars.Scalar rules) implements Reader {
    @Override
    public Object read(JsonParser in) throws IOException {
      switch (in.currentToken()) {
        case VALUE_NULL:
          return null;
        case VALUE_TRUE:
        case VALUE_FALSE:
          return rules.ofTruth(in.getBooleanValue());
        case VALUE_NUMBER_INT:
        case VALUE_NUMBER_FLOAT:
          return rules.ofNumber(in.getText());
        case VALUE_STRING:
          return rules.ofText(in.getText());
        default:
          in.skipChildren();
          return WRONG;
      }
    }
  }

  private record Elements(Reader element) implements Reader {
    @Override
    public Object read(JsonParser in) throws IOException {
      if (in.currentToken() == JsonToken.VALUE_NULL) {
        return null;
      }
      if (!begins(in, JsonToken.START_ARRAY)) {
        return WRONG;
      }
      List<Object> found = new ArrayList<>();
      boolean wrong = false;
      while (in.nextToken() != JsonToken.END_ARRAY) {
        Object value = element.read(in);
        wrong |= value == WRONG;
        found.add(value);
      }
      return wrong ? WRONG : new GenericArrayData(found.toArray());
    }
  }

  private record Entries(JsonScalars.Scalar key, Reader value) implements Reader {
    @Override
    public Object read(JsonParser in) throws IOException {
      if (in.currentToken() == JsonToken.VALUE_NULL) {
        return null;
      }
      if (!begins(in, JsonToken.START_OBJECT)) {
        return WRONG;
      }
      Map<Object, Object> found = new LinkedHashMap<>();
      while (in.nextToken() != JsonToken.END_OBJECT) {
        Object name = key.ofText(in.currentName());
        in.nextToken();
        found.put(name, value.read(in));
      }
      if (found.containsKey(WRONG) || found.containsValue(WRONG)) {
        return WRONG;
      }
      Object[] keys = found.keySet().toArray();
      return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(found.values().toArray()));
    }
  }

  /** Reads an object by the names of its fields. */
  static final class Struct implements Reader {
    private final Reader[] readers;
    private final Map<String, Integer> places = new HashMap<>();

    Struct(StructType type) {
      StructField[] fields = type.fields();
      readers = new Reader[fields.length];
      for (int place = 0; place < fields.length; place++) {
        readers[place] = of(fields[place].dataType());
        places.put(fields[place].name(), place);
      }
    }

    @Override
    public Object read(JsonParser in) throws IOException {
      if (in.currentToken() == JsonToken.VALUE_NULL) {
        return null;
      }
      if (!begins(in, JsonToken.START_OBJECT)) {
        return WRONG;
      }
      Object[] values = new Object[readers.length];
      fill(in, values);
      for (Object value : values) {
        if (value == WRONG) {
          return WRONG;
        }
      }
      return new GenericInternalRow(values);
    }

    /** Reads the fields of the parser's current object, to its end; {@link #WRONG} for a field of another type. */
    void fill(JsonParser in, Object[] values) throws IOException {
      while (in.nextToken() != JsonToken.END_OBJECT) {
        Integer place = places.get(in.currentName());
        in.nextToken();
        if (place == null) {
          in.skipChildren();
        } else {
          values[place] = readers[place].read(in);
        }
      }
    }
  }
}
