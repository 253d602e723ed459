package dsdagster.json;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.io.SerializedString;
import java.io.IOException;
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
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.unsafe.types.UTF8String;

/** Writers that turn Spark's values into JSON, also nested values. Not thread-safe. */
final class JsonWriters {
  private static final Map<DataType, Writer> BY_TYPE = new HashMap<>();

  static {
    BY_TYPE.put(DataTypes.NullType, (out, from, at) -> out.writeNull());
    BY_TYPE.put(DataTypes.BooleanType, (out, from, at) -> out.writeBoolean(from.getBoolean(at)));
    BY_TYPE.put(DataTypes.ByteType, (out, from, at) -> out.writeNumber(from.getByte(at)));
    BY_TYPE.put(DataTypes.ShortType, (out, from, at) -> out.writeNumber(from.getShort(at)));
    BY_TYPE.put(DataTypes.IntegerType, (out, from, at) -> out.writeNumber(from.getInt(at)));
    BY_TYPE.put(DataTypes.LongType, (out, from, at) -> out.writeNumber(from.getLong(at)));
    BY_TYPE.put(DataTypes.FloatType, (out, from, at) -> out.writeNumber(from.getFloat(at)));
    BY_TYPE.put(DataTypes.DoubleType, (out, from, at) -> out.writeNumber(from.getDouble(at)));
    BY_TYPE.put(DataTypes.BinaryType, (out, from, at) -> out.writeBinary(from.getBinary(at)));
    BY_TYPE.put(DataTypes.DateType, (out, from, at) -> out.writeString(Times.date(from.getInt(at))));
  }

  private JsonWriters() {}

  /** Writes the value at a place; the value is not null. */
  interface Writer {
    void write(JsonGenerator out, SpecializedGetters from, int at) throws IOException;
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
      return (out, from, at) -> text(out, from.getUTF8String(at));
    }
    if (type instanceof DecimalType decimal) {
      return (out, from, at) ->
          out.writeNumber(from.getDecimal(at, decimal.precision(), decimal.scale()).toJavaBigDecimal());
    }
    if (type instanceof TimeType) {
      TimeFormatter formatter = TimeFormatter$.MODULE$.getFractionFormatter();
      return (out, from, at) -> out.writeString(formatter.format(from.getLong(at)));
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
      return (keys, at) -> Base64.getEncoder().encodeToString(keys.getBinary(at));
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

  /** Bytes that are not valid UTF-8 (a cast from binary may give them) become U+FFFD. */
  private static void text(JsonGenerator out, UTF8String text) throws IOException {
    if (text.isFullAscii()) {
      byte[] bytes = text.getBytes();
      out.writeUTF8String(bytes, 0, bytes.length);
    } else {
      out.writeString(text.toString());
    }
  }

  /** Format of a relation's times: {@code 2026-01-31 12:34:56.789}; times with a zone are in UTC with a trailing Z. */
  static final class Times {
    private static final DateTimeFormatter DATE = DateTimeFormatter.ofPattern("uuuu-MM-dd", Locale.US);
    private static final long MICROS = 1_000_000;
    private static final long SECONDS = 86_400;
    private static final int[] POWERS = {1_000_000, 100_000, 10_000, 1_000, 100, 10, 1};
    private static final int WITHOUT_FRACTION = 20;
    private static final int LAST_YEAR = 9999;

    private final byte separator;
    private final int digits;
    private final Times longer;
    private final DateTimeFormatter local;
    private final byte[] text;

    Times(String separator, int digits) {
      this(separator, digits, null);
    }

    private Times(String separator, int digits, Times longer) {
      this.longer = longer;
      this.separator = (byte) separator.charAt(0);
      this.digits = digits;
      String pattern = "uuuu-MM-dd'" + separator + "'HH:mm:ss." + "S".repeat(digits);
      local = DateTimeFormatter.ofPattern(pattern, Locale.US).withZone(ZoneOffset.UTC);
      text = new byte[WITHOUT_FRACTION + digits + 1];
    }

    /** Milliseconds, or microseconds if a time has them. */
    static Times asNeeded(String separator) {
      return new Times(separator, 3, new Times(separator, 6, null));
    }

    static String date(int days) {
      return DATE.format(LocalDate.ofEpochDay(days));
    }

    void write(JsonGenerator out, long micros, boolean zoned) throws IOException {
      if (isLonger(micros)) {
        longer.write(out, micros, zoned);
        return;
      }
      long second = Math.floorDiv(micros, MICROS);
      LocalDate date = LocalDate.ofEpochDay(Math.floorDiv(second, SECONDS));
      if (date.getYear() < 0 || date.getYear() > LAST_YEAR) {
        out.writeString(text(micros, zoned));
        return;
      }
      put(0, date.getYear(), 4, (byte) '-');
      put(5, date.getMonthValue(), 2, (byte) '-');
      put(8, date.getDayOfMonth(), 2, separator);
      int ofDay = (int) Math.floorMod(second, SECONDS);
      put(11, ofDay / 3600, 2, (byte) ':');
      put(14, ofDay / 60 % 60, 2, (byte) ':');
      put(17, ofDay % 60, 2, (byte) '.');
      put(WITHOUT_FRACTION, (int) Math.floorMod(micros, MICROS) / POWERS[digits], digits, (byte) 'Z');
      out.writeRawUTF8String(text, 0, zoned ? text.length : text.length - 1);
    }

    String text(long micros, boolean zoned) {
      if (isLonger(micros)) {
        return longer.text(micros, zoned);
      }
      return local.format(Instant.EPOCH.plus(micros, ChronoUnit.MICROS)) + (zoned ? "Z" : "");
    }

    private boolean isLonger(long micros) {
      return longer != null && micros % POWERS[digits] != 0;
    }

    private void put(int at, int number, int places, byte behind) {
      int rest = number;
      for (int place = at + places - 1; place >= at; place--) {
        text[place] = (byte) ('0' + rest % 10);
        rest /= 10;
      }
      text[at + places] = behind;
    }
  }

  private record Elements(Writer element) implements Writer {
    @Override
    public void write(JsonGenerator out, SpecializedGetters from, int at) throws IOException {
      ArrayData array = from.getArray(at);
      out.writeStartArray();
      for (int place = 0; place < array.numElements(); place++) {
        valueOrNull(element, out, array, place);
      }
      out.writeEndArray();
    }
  }

  private record Entries(Name key, Writer value) implements Writer {
    @Override
    public void write(JsonGenerator out, SpecializedGetters from, int at) throws IOException {
      MapData map = from.getMap(at);
      ArrayData keys = map.keyArray();
      ArrayData values = map.valueArray();
      out.writeStartObject();
      for (int place = 0; place < map.numElements(); place++) {
        out.writeFieldName(key.of(keys, place));
        valueOrNull(value, out, values, place);
      }
      out.writeEndObject();
    }
  }

  private static void valueOrNull(Writer writer, JsonGenerator out, SpecializedGetters from, int at)
      throws IOException {
    if (from.isNullAt(at)) {
      out.writeNull();
    } else {
      writer.write(out, from, at);
    }
  }

  /** An object with a field for each column. */
  static final class Struct implements Writer {
    private final SerializedString[] names;
    private final Writer[] writers;

    Struct(StructType type, Times times) {
      StructField[] fields = type.fields();
      names = new SerializedString[fields.length];
      writers = new Writer[fields.length];
      for (int place = 0; place < fields.length; place++) {
        names[place] = new SerializedString(fields[place].name());
        writers[place] = of(fields[place].dataType(), times);
      }
    }

    @Override
    public void write(JsonGenerator out, SpecializedGetters from, int at) throws IOException {
      InternalRow row = from.getStruct(at, writers.length);
      out.writeStartObject();
      for (int place = 0; place < writers.length; place++) {
        out.writeFieldName(names[place]);
        valueOrNull(writers[place], out, row, place);
      }
      out.writeEndObject();
    }
  }
}
