package dsdagster.scalar;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.io.JsonStringEncoder;
import dsdagster.Expressions;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Values at a path of a JSON text. Differences to Spark's functions: a number keeps the digits it is written with, text
 * after the JSON makes it invalid, and of equal names the last one is used.
 *
 * <p>Consecutive calls over the same text parse it once.
 */
public final class JsonTexts implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final JsonFactory FACTORY = new JsonFactory();
  private static final Object ABSENT = new Object();
  private static final Object NULL = new Object();
  private static final ThreadLocal<Last> LAST = ThreadLocal.withInitial(Last::new);

  /** A number or a truth value as it is written. */
  private record Plain(String text) {}

  /** The text that was parsed last, with its value. */
  private static final class Last {
    private UTF8String text;
    private Object value;
  }

  private JsonTexts() {}

  /** {@link #valueAt}. */
  public static Column value(Column text, Column path) {
    return called("valueAt", DataTypes.StringType, text, path);
  }

  /** {@link #nestedAt}. */
  public static Column nested(Column text, Column path) {
    return called("nestedAt", DataTypes.StringType, text, path);
  }

  /** {@link #existsAt}. */
  public static Column exists(Column text, Column path) {
    return called("existsAt", DataTypes.BooleanType, text, path);
  }

  /** {@link #isValid}. */
  public static Column valid(Column text) {
    return called("isValid", DataTypes.BooleanType, text);
  }

  /** {@link #withoutQuotes}. */
  public static Column unquoted(Column text) {
    return called("withoutQuotes", DataTypes.StringType, text);
  }

  private static Column called(String method, DataType type, Column... arguments) {
    return Expressions.call(new JsonTexts(), method, type, true, arguments);
  }

  /** The scalar at a path as text; otherwise null. */
  public UTF8String valueAt(UTF8String text, UTF8String path) {
    Object found = at(text, JsonPath.of(path.toString()));
    if (found instanceof String string) {
      return UTF8String.fromString(string);
    }
    return found instanceof Plain plain ? UTF8String.fromString(plain.text()) : null;
  }

  /** The object or array at a path as JSON without blanks; otherwise null. */
  public UTF8String nestedAt(UTF8String text, UTF8String path) {
    Object found = at(text, JsonPath.of(path.toString()));
    if (!(found instanceof Map || found instanceof List)) {
      return null;
    }
    StringBuilder written = new StringBuilder();
    write(found, written);
    return UTF8String.fromString(written.toString());
  }

  /** Whether there is a value at a path; false for an invalid path. */
  public boolean existsAt(UTF8String text, UTF8String path) {
    return at(text, JsonPath.of(path.toString())) != ABSENT;
  }

  /** Whether a text is JSON. */
  public boolean isValid(UTF8String text) {
    return read(text) != ABSENT;
  }

  /** The content of a JSON string; any other text unchanged. */
  public UTF8String withoutQuotes(UTF8String text) {
    return read(text) instanceof String string ? UTF8String.fromString(string) : text;
  }

  private static Object at(UTF8String text, List<Object> steps) {
    return steps == null ? ABSENT : below(read(text), steps, 0);
  }

  private static Object below(Object value, List<Object> steps, int from) {
    Object found = value;
    for (int at = from; at < steps.size(); at++) {
      Object step = steps.get(at);
      if (step == JsonPath.EACH) {
        return each(found, steps, at + 1);
      }
      if (step instanceof Integer place) {
        found = found instanceof List<?> list && place < list.size() ? list.get(place) : ABSENT;
      } else {
        found = found instanceof Map<?, ?> map && map.containsKey(step) ? map.get(step) : ABSENT;
      }
    }
    return found;
  }

  private static Object each(Object value, List<Object> steps, int from) {
    if (!(value instanceof List<?> elements)) {
      return ABSENT;
    }
    List<Object> found = new ArrayList<>();
    for (Object element : elements) {
      Object part = below(element, steps, from);
      if (part != ABSENT) {
        found.add(part);
      }
    }
    return found;
  }

  private static void write(Object value, StringBuilder to) {
    if (value instanceof Map<?, ?> map) {
      String between = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        to.append(between);
        write(entry.getKey(), to);
        to.append(':');
        write(entry.getValue(), to);
        between = ",";
      }
      to.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof List<?> list) {
      String between = "[";
      for (Object element : list) {
        to.append(between);
        write(element, to);
        between = ",";
      }
      to.append(list.isEmpty() ? "[]" : "]");
    } else if (value instanceof String string) {
      to.append('"').append(JsonStringEncoder.getInstance().quoteAsString(string)).append('"');
    } else {
      to.append(value instanceof Plain plain ? plain.text() : "null");
    }
  }

  private static Object read(UTF8String text) {
    Last last = LAST.get();
    if (!text.equals(last.text)) {
      last.value = parsed(text.toString());
      last.text = text.copy();
    }
    return last.value;
  }

  private static Object parsed(String text) {
    try (JsonParser parser = FACTORY.createParser(text)) {
      Object value = parser.nextToken() == null ? ABSENT : value(parser);
      return parser.nextToken() == null ? value : ABSENT;
    } catch (IOException notJson) {
      return ABSENT;
    }
  }

  private static Object value(JsonParser parser) throws IOException {
    return switch (parser.currentToken()) {
      case START_OBJECT -> object(parser);
      case START_ARRAY -> array(parser);
      case VALUE_STRING -> parser.getText();
      case VALUE_NULL -> NULL;
      default -> new Plain(parser.getText());
    };
  }

  private static Map<String, Object> object(JsonParser parser) throws IOException {
    Map<String, Object> made = new LinkedHashMap<>();
    while (parser.nextToken() != JsonToken.END_OBJECT) {
      String name = parser.currentName();
      parser.nextToken();
      made.put(name, value(parser));
    }
    return made;
  }

  private static List<Object> array(JsonParser parser) throws IOException {
    List<Object> made = new ArrayList<>();
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      made.add(value(parser));
    }
    return made;
  }

  @Override
  public String toString() {
    return "json";
  }
}
