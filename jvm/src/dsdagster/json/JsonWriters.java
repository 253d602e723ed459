package dsdagster.json;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.Base64;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.catalyst.util.TimeFormatter;
import org.apache.spark.sql.catalyst.util.TimeFormatter$;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;

/** Writers that turn Spark's values into JSON, also nested values. Not thread-safe. */
final class JsonWriters {
  private static final Map<DataType, Writer> BY_TYPE = new HashMap<>();

  static {
    BY_TYPE.put(DataTypes.NullType, (out, from, at) -> out.nothing());
    BY_TYPE.put(DataTypes.BooleanType, (out, from, at) -> out.truth(from.getBoolean(at)));
    BY_TYPE.put(DataTypes.ByteType, (out, from, at) -> out.number(from.getByte(at)));
    BY_TYPE.put(DataTypes.ShortType, (out, from, at) -> out.number(from.getShort(at)));
    BY_TYPE.put(DataTypes.IntegerType, (out, from, at) -> out.number(from.getInt(at)));
    BY_TYPE.put(DataTypes.LongType, (out, from, at) -> out.number(from.getLong(at)));
    BY_TYPE.put(DataTypes.FloatType, (out, from, at) -> floating(out, from.getFloat(at)));
    BY_TYPE.put(DataTypes.DoubleType, (out, from, at) -> floating(out, from.getDouble(at)));
    BY_TYPE.put(DataTypes.BinaryType, (out, from, at) -> quoted(out, base64(from.getBinary(at))));
    BY_TYPE.put(DataTypes.DateType, (out, from, at) -> quoted(out, Times.date(from.getInt(at))));
  }

  private static final int LONG_DIGITS = 18;

  /** Numbers with at most so many digits after the point have no exponent. */
  private static final int PLAIN_SCALE = 6;

  private static final int[] POWERS = {1, 10, 100, 1_000, 10_000, 100_000, 1_000_000};

  private JsonWriters() {}

  /** Writes the value at a place; the value is not null. */
  interface Writer {
    void write(JsonOutput out, SpecializedGetters from, int at);
  }

  static Writer of(DataType type, Times times) {
    if (type instanceof StructType struct) {
      return new Struct(struct, times);
    }
    if (type instanceof ArrayType array) {
      return new Elements(of(array.elementType(), times));
    }
    if (type instanceof MapType map) {
      return new Entries(nameOf(map.keyType(), times), of(map.valueType(), times));
    }
    if (type instanceof StringType) {
      return (out, from, at) -> out.string(from.getUTF8String(at));
    }
    if (type instanceof DecimalType decimal) {
      return (out, from, at) -> decimal(out, from.getDecimal(at, decimal.precision(), decimal.scale()));
    }
    if (type instanceof TimeType) {
      TimeFormatter formatter = TimeFormatter$.MODULE$.getFractionFormatter();
      return (out, from, at) -> quoted(out, formatter.format(from.getLong(at)));
    }
    if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
      boolean zoned = type.equals(DataTypes.TimestampType);
      return (out, from, at) -> times.write(out, from.getLong(at), zoned);
    }
    Writer known = BY_TYPE.get(type);
    if (known == null) {
      throw new IllegalArgumentException("no writer of JSON for " + type);
    }
    return known;
  }

  /** Turns a key of a map into the text that the key would have as a value. */
  private interface Name {
    String of(ArrayData keys, int at);
  }

  private static Name nameOf(DataType type, Times times) {
    if (type.equals(DataTypes.DateType)) {
      return (keys, at) -> Times.date(keys.getInt(at));
    }
    if (type.equals(DataTypes.BinaryType)) {
      return (keys, at) -> base64(keys.getBinary(at));
    }
    if (type instanceof TimeType) {
      TimeFormatter formatter = TimeFormatter$.MODULE$.getFractionFormatter();
      return (keys, at) -> formatter.format(keys.getLong(at));
    }
    if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
      boolean zoned = type.equals(DataTypes.TimestampType);
      return (keys, at) -> times.text(keys.getLong(at), zoned);
    }
    return (keys, at) -> keys.get(at, type).toString();
  }

  private static String base64(byte[] bytes) {
    return Base64.getEncoder().encodeToString(bytes);
  }

  private static void quoted(JsonOutput out, String ascii) {
    out.raw('"');
    out.raw(ascii);
    out.raw('"');
  }

  private static void floating(JsonOutput out, float value) {
    if (Float.isFinite(value)) {
      out.raw(Float.toString(value));
    } else {
      quoted(out, Float.toString(value));
    }
  }

  private static void floating(JsonOutput out, double value) {
    if (Double.isFinite(value)) {
      out.raw(Double.toString(value));
    } else {
      quoted(out, Double.toString(value));
    }
  }

  /** As BigDecimal writes it: small numbers with more than six digits after the point have an exponent. */
  private static void decimal(JsonOutput out, Decimal value) {
    if (value.precision() <= LONG_DIGITS && value.scale() >= 0 && value.scale() <= PLAIN_SCALE) {
      plain(out, value.toUnscaledLong(), value.scale());
      return;
    }
    BigDecimal number = value.toJavaBigDecimal();
    if (number.precision() <= LONG_DIGITS && number.scale() >= 0 && number.scale() <= PLAIN_SCALE) {
      plain(out, number.unscaledValue().longValue(), number.scale());
    } else {
      out.raw(number.toString());
    }
  }

  private static void plain(JsonOutput out, long unscaled, int scale) {
    if (scale == 0) {
      out.number(unscaled);
      return;
    }
    long power = POWERS[scale];
    if (unscaled < 0 && unscaled > -power) {
      out.raw('-');
    }
    out.number(unscaled / power);
    out.raw('.');
    out.padded((int) Math.abs(unscaled % power), scale);
  }

  /** Format of a relation's times: {@code 2026-01-31 12:34:56.789}; times with a zone are in UTC with a trailing Z. */
  static final class Times {
    private static final DateTimeFormatter DATE = DateTimeFormatter.ofPattern("uuuu-MM-dd", Locale.US);
    private static final long MICROS = 1_000_000;
    private static final long SECONDS = 86_400;
    private static final int[] FRACTIONS = {1_000_000, 100_000, 10_000, 1_000, 100, 10, 1};
    private static final int LAST_YEAR = 9999;

    private final int digits;
    private final Times longer;
    private final DateTimeFormatter local;
    /** A quote, the date and the separator; rows next to each other mostly have the same date. */
    private final byte[] date;

    private long known = Long.MIN_VALUE; // day of the date

    Times(String separator, int digits) {
      this(separator, digits, null);
    }

    private Times(String separator, int digits, Times longer) {
      this.longer = longer;
      this.digits = digits;
      String pattern = "uuuu-MM-dd'" + separator + "'HH:mm:ss." + "S".repeat(digits);
      local = DateTimeFormatter.ofPattern(pattern, Locale.US).withZone(ZoneOffset.UTC);
      date = ("\"0000-00-00" + separator).getBytes(StandardCharsets.US_ASCII);
    }

    /** Milliseconds, or microseconds if a time has them. */
    static Times asNeeded(String separator) {
      return new Times(separator, 3, new Times(separator, 6, null));
    }

    static String date(int days) {
      return DATE.format(LocalDate.ofEpochDay(days));
    }

    void write(JsonOutput out, long micros, boolean zoned) {
      if (isLonger(micros)) {
        longer.write(out, micros, zoned);
        return;
      }
      long second = Math.floorDiv(micros, MICROS);
      long day = Math.floorDiv(second, SECONDS);
      if (day != known) {
        LocalDate found = LocalDate.ofEpochDay(day);
        if (found.getYear() < 0 || found.getYear() > LAST_YEAR) {
          quoted(out, text(micros, zoned));
          return;
        }
        put(found.getYear(), 1, 4);
        put(found.getMonthValue(), 6, 2);
        put(found.getDayOfMonth(), 9, 2);
        known = day;
      }
      out.raw(date);
      int ofDay = (int) Math.floorMod(second, SECONDS);
      out.padded(ofDay / 3600, 2);
      out.raw(':');
      out.padded(ofDay / 60 % 60, 2);
      out.raw(':');
      out.padded(ofDay % 60, 2);
      out.raw('.');
      out.padded((int) Math.floorMod(micros, MICROS) / FRACTIONS[digits], digits);
      if (zoned) {
        out.raw('Z');
      }
      out.raw('"');
    }

    private void put(int number, int at, int places) {
      int rest = number;
      for (int place = at + places - 1; place >= at; place--) {
        date[place] = (byte) ('0' + rest % 10);
        rest /= 10;
      }
    }

    String text(long micros, boolean zoned) {
      if (isLonger(micros)) {
        return longer.text(micros, zoned);
      }
      return local.format(Instant.EPOCH.plus(micros, ChronoUnit.MICROS)) + (zoned ? "Z" : "");
    }

    private boolean isLonger(long micros) {
      return longer != null && micros % FRACTIONS[digits] != 0;
    }
  }

  private record Elements(Writer element) implements Writer {
    @Override
    public void write(JsonOutput out, SpecializedGetters from, int at) {
      ArrayData array = from.getArray(at);
      out.raw('[');
      for (int place = 0; place < array.numElements(); place++) {
        if (place > 0) {
          out.raw(',');
        }
        valueOrNull(element, out, array, place);
      }
      out.raw(']');
    }
  }

  private record Entries(Name key, Writer value) implements Writer {
    @Override
    public void write(JsonOutput out, SpecializedGetters from, int at) {
      MapData map = from.getMap(at);
      ArrayData keys = map.keyArray();
      ArrayData values = map.valueArray();
      out.raw('{');
      for (int place = 0; place < map.numElements(); place++) {
        if (place > 0) {
          out.raw(',');
        }
        out.string(key.of(keys, place));
        out.raw(':');
        valueOrNull(value, out, values, place);
      }
      out.raw('}');
    }
  }

  private static void valueOrNull(Writer writer, JsonOutput out, SpecializedGetters from, int at) {
    if (from.isNullAt(at)) {
      out.nothing();
    } else {
      writer.write(out, from, at);
    }
  }

  /** An object with a field for each column. */
  static final class Struct implements Writer {
    /** What is before each value: a brace or a comma, the name and a colon. */
    private final byte[][] names;
    private final Writer[] writers;

    Struct(StructType type, Times times) {
      StructField[] fields = type.fields();
      names = new byte[fields.length][];
      JsonOutput out = new JsonOutput();
      writers = new Writer[fields.length];
      for (int place = 0; place < fields.length; place++) {
        out.raw(place == 0 ? '{' : ',');
        out.string(fields[place].name());
        out.raw(':');
        names[place] = out.take();
        writers[place] = of(fields[place].dataType(), times);
      }
    }

    @Override
    public void write(JsonOutput out, SpecializedGetters from, int at) {
      InternalRow row = from.getStruct(at, writers.length);
      if (names.length == 0) {
        out.raw('{');
      }
      for (int place = 0; place < writers.length; place++) {
        out.raw(names[place]);
        valueOrNull(writers[place], out, row, place);
      }
      out.raw('}');
    }
  }
}
