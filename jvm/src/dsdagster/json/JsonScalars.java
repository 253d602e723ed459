package dsdagster.json;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.function.LongFunction;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Scalar JSON values. A number is read by its text, with or without quotes; a whole number may have a fraction of
 * zeros or an exponent. A number that would lose digits before the point, or any digit of a whole number, counts as a
 * value of another type.
 */
final class JsonScalars {
  private static final int LONG_DIGITS = 19;
  private static final int NOTHING_BELOW = 100;
  private static final Map<DataType, Scalar> BY_TYPE = new HashMap<>();

  static {
    BY_TYPE.put(DataTypes.BooleanType, new Scalar(Boolean::valueOf, JsonScalars::wrong, JsonScalars::truth));
    BY_TYPE.put(DataTypes.ByteType, whole(Byte.MIN_VALUE, Byte.MAX_VALUE, value -> (byte) value));
    BY_TYPE.put(DataTypes.ShortType, whole(Short.MIN_VALUE, Short.MAX_VALUE, value -> (short) value));
    BY_TYPE.put(DataTypes.IntegerType, whole(Integer.MIN_VALUE, Integer.MAX_VALUE, value -> (int) value));
    BY_TYPE.put(DataTypes.LongType, whole(Long.MIN_VALUE, Long.MAX_VALUE, value -> value));
    BY_TYPE.put(DataTypes.FloatType, floating(text -> Float.parseFloat(text)));
    BY_TYPE.put(DataTypes.DoubleType, floating(text -> Double.parseDouble(text)));
    BY_TYPE.put(DataTypes.BinaryType, text(text -> Base64.getDecoder().decode(text)));
    BY_TYPE.put(DataTypes.DateType, text(text -> found(DateTimeUtils.stringToDate(UTF8String.fromString(text)))));
    BY_TYPE.put(DataTypes.TimestampType, text(JsonScalars::moment));
    BY_TYPE.put(DataTypes.TimestampNTZType, text(JsonScalars::local));
  }

  private JsonScalars() {}

  /** How a type reads a truth value, the text of a number, and the text of a string. */
  record Scalar(
      Function<Boolean, Object> truths, Function<String, Object> numbers, Function<String, Object> texts) {
    Object ofTruth(boolean value) {
      return truths.apply(value);
    }

    Object ofNumber(String text) {
      return tried(numbers, text);
    }

    Object ofText(String text) {
      return tried(texts, text);
    }

    private static Object tried(Function<String, Object> reader, String text) {
      try {
        return reader.apply(text);
      } catch (IllegalArgumentException | ArithmeticException refused) {
        return JsonReaders.WRONG;
      }
    }
  }

  static Scalar of(DataType type) {
    if (type instanceof DecimalType decimal) {
      Function<String, Object> read = text -> exact(text, decimal);
      return new Scalar(JsonScalars::wrong, read, read);
    }
    if (type instanceof TimeType) {
      return text(text -> found(DateTimeUtils.stringToTime(UTF8String.fromString(text))));
    }
    if (type instanceof StringType) {
      return text(UTF8String::fromString);
    }
    Scalar known = BY_TYPE.get(type);
    if (known == null) {
      throw new IllegalArgumentException("no reader of JSON for " + type);
    }
    return known;
  }

  private static Object wrong(Object value) {
    return JsonReaders.WRONG;
  }

  private static Scalar text(Function<String, Object> read) {
    return new Scalar(JsonScalars::wrong, JsonScalars::wrong, read);
  }

  private static Object truth(String text) {
    String word = text.trim();
    boolean yes = word.equalsIgnoreCase("true");
    return yes || word.equalsIgnoreCase("false") ? yes : JsonReaders.WRONG;
  }

  private static Scalar whole(long least, long most, LongFunction<Object> narrowed) {
    Function<String, Object> read = text -> {
      BigDecimal number = new BigDecimal(text.trim());
      if (number.signum() != 0 && number.precision() - (long) number.scale() > LONG_DIGITS) {
        return JsonReaders.WRONG; // before its digits are computed: 1e999999999
      }
      long value = number.signum() == 0 ? 0 : number.longValueExact();
      return value < least || value > most ? JsonReaders.WRONG : narrowed.apply(value);
    };
    return new Scalar(JsonScalars::wrong, read, read);
  }

  private static Scalar floating(Function<String, Number> parse) {
    Function<String, Object> number = text -> {
      new BigDecimal(text); // Double.parseDouble accepts 1f and 0x1p3 too
      Number value = parse.apply(text);
      return Double.isInfinite(value.doubleValue()) ? JsonReaders.WRONG : value;
    };
    Function<String, Object> quoted = text -> {
      String word = text.trim();
      boolean named = word.equals("NaN") || word.equals("Infinity") || word.equals("-Infinity");
      return named ? parse.apply(word) : number.apply(word);
    };
    return new Scalar(JsonScalars::wrong, number, quoted);
  }

  private static Object exact(String text, DecimalType type) {
    BigDecimal number = new BigDecimal(text.trim());
    long before = number.precision() - (long) number.scale();
    if (number.signum() == 0 || before < -NOTHING_BELOW) {
      return Decimal.apply(BigDecimal.ZERO.setScale(type.scale()), type.precision(), type.scale());
    }
    if (before > type.precision() - type.scale()) {
      return JsonReaders.WRONG;
    }
    BigDecimal made = number.setScale(type.scale(), RoundingMode.HALF_UP);
    return made.precision() > type.precision()
        ? JsonReaders.WRONG
        : Decimal.apply(made, type.precision(), type.scale());
  }

  private static Object moment(String text) {
    return found(DateTimeUtils.stringToTimestamp(UTF8String.fromString(text), ZoneOffset.UTC));
  }

  private static Object local(String text) {
    return found(DateTimeUtils.stringToTimestampWithoutTimeZone(UTF8String.fromString(text), true));
  }

  private static Object found(Option<Object> value) {
    return value.isDefined() ? value.get() : JsonReaders.WRONG;
  }
}
