package dsdagster.json;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/**
 * Readers of scalar values. Common forms are read without creating a text, all others by the rules of {@link
 * JsonScalars}, which give the same result for the common forms.
 */
final class JsonValues {
  private static final long EXACT_DOUBLE = 1L << 53;
  private static final int LONG_DIGITS = 18;
  private static final long[] POWERS = new long[LONG_DIGITS + 1];

  static {
    POWERS[0] = 1;
    for (int power = 1; power <= LONG_DIGITS; power++) {
      POWERS[power] = POWERS[power - 1] * 10;
    }
  }

  private JsonValues() {}

  /** Reads the parser's current token; null if the full rules have to read it. */
  private interface Quick {
    Object read(JsonParser in, JsonToken token) throws IOException;
  }

  static JsonReaders.Reader of(DataType type, JsonScalars.Scalar rules) {
    return new Value(rules, quick(type));
  }

  private static Quick quick(DataType type) {
    if (type instanceof DecimalType decimal) {
      return decimal.precision() <= LONG_DIGITS ? (in, token) -> decimal(in, token, decimal) : (in, token) -> null;
    }
    if (type.equals(DataTypes.IntegerType)) {
      return JsonValues::integer;
    }
    if (type.equals(DataTypes.LongType)) {
      return (in, token) -> isLong(in, token) ? (Object) in.getLongValue() : null;
    }
    if (type.equals(DataTypes.DoubleType)) {
      return JsonValues::floating;
    }
    if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
      return (in, token) -> token == JsonToken.VALUE_STRING ? (Object) JsonTimes.micros(in) : null;
    }
    return (in, token) -> null;
  }

  private static boolean isLong(JsonParser in, JsonToken token) throws IOException {
    return token == JsonToken.VALUE_NUMBER_INT && in.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
  }

  private static Object integer(JsonParser in, JsonToken token) throws IOException {
    boolean fits = token == JsonToken.VALUE_NUMBER_INT && in.getNumberType() == JsonParser.NumberType.INT;
    return fits ? (Object) in.getIntValue() : null;
  }

  /** Zero is left to the full rules: it may be negative, or a number that is too small. */
  private static Object floating(JsonParser in, JsonToken token) throws IOException {
    if (isLong(in, token)) {
      long value = in.getLongValue();
      return value != 0 && Math.abs(value) < EXACT_DOUBLE ? (Object) (double) value : null;
    }
    if (token != JsonToken.VALUE_NUMBER_FLOAT) {
      return null;
    }
    double value = in.getDoubleValue();
    return value != 0 && !Double.isInfinite(value) ? (Object) value : null;
  }

  private static Object decimal(JsonParser in, JsonToken token, DecimalType type) throws IOException {
    if (token == JsonToken.VALUE_NUMBER_FLOAT) {
      return fraction(in, type);
    }
    if (!isLong(in, token)) {
      return null;
    }
    long value = in.getLongValue();
    boolean fits = Math.abs(value) < POWERS[type.precision() - type.scale()] && value != Long.MIN_VALUE;
    return fits ? Decimal.apply(value * POWERS[type.scale()], type.precision(), type.scale()) : null;
  }

  /** A number with a decimal point and no more digits after it than the type keeps; null for other numbers. */
  private static Object fraction(JsonParser in, DecimalType type) throws IOException {
    int length = in.getTextLength();
    if (length > LONG_DIGITS) {
      return null;
    }
    char[] characters = in.getTextCharacters();
    int start = in.getTextOffset();
    long unscaled = 0;
    int point = -1;
    for (int at = characters[start] == '-' ? 1 : 0; at < length; at++) {
      char character = characters[start + at];
      if (character == '.') {
        point = at;
      } else if (character < '0' || character > '9') {
        return null;
      } else {
        unscaled = unscaled * 10 + character - '0';
      }
    }
    int missing = type.scale() - (length - point - 1);
    if (missing < 0 || unscaled >= POWERS[type.precision() - missing]) {
      return null;
    }
    long value = unscaled * POWERS[missing];
    return Decimal.apply(characters[start] == '-' ? -value : value, type.precision(), type.scale());
  }

  private record Value(JsonScalars.Scalar rules, Quick quick) implements JsonReaders.Reader {
    @Override
    public Object read(JsonParser in) throws IOException {
      JsonToken token = in.currentToken();
      if (token == JsonToken.VALUE_NULL) {
        return null;
      }
      Object value = quick.read(in, token);
      return value != null ? value : byRules(in, token);
    }

    private Object byRules(JsonParser in, JsonToken token) throws IOException {
      switch (token) {
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
          return JsonReaders.WRONG;
      }
    }
  }
}
