package dsdagster.delta.rank;

import dsdagster.delta.Values;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Keys of a map in the state store that are read in the order of values.
 *
 * <p>Rules, of Spark 4.2: the keys that a map has under one grouping key are read in the order of their bytes, and
 * numbers are stored with the lowest byte first. So a key is a row of numbers with reversed bytes: a prefix of the
 * values, then a digest of the whole values. Keys with different prefixes are in the order of their values; keys with
 * equal prefixes are in any order.
 */
public final class SortKey implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Count of numbers that hold the prefix of the values, and of those that hold the digest. */
  private static final int BEGIN = 4;
  private static final int DIGEST = 2;
  private static final int BYTES = BEGIN * Long.BYTES;
  public static final StructType TYPE = type();

  private final ArrayList<DataType> types;
  private final ArrayList<Ranking.Term> terms;

  /** @param terms sort order of the value of each type */
  public SortKey(List<DataType> types, List<Ranking.Term> terms) {
    this.types = new ArrayList<>(types);
    this.terms = new ArrayList<>(terms);
  }

  private static StructType type() {
    StructType found = new StructType();
    for (int i = 0; i < BEGIN + DIGEST; i++) {
      found = found.add("p" + i, DataTypes.LongType, false);
    }
    return found;
  }

  /** Whether keys of values of this type are ordered. */
  public static boolean isOrdered(DataType type) {
    boolean begins = type instanceof StructType struct && struct.size() > 0 && isOrdered(struct.fields()[0].dataType());
    return begins || isExact(type) || type instanceof StringType || type instanceof BinaryType;
  }

  /** Whether different values of this type have different prefixes. */
  public static boolean isExact(DataType type) {
    return type instanceof NumericType || type instanceof BooleanType || type instanceof DateType
        || type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  /**
   * The key of values.
   *
   * @param identity distinguishes keys whose values have the same prefix; null if prefixes are exact
   */
  public Row of(Row values, byte[] identity) {
    ByteBuffer begin = ByteBuffer.allocate(BYTES);
    boolean goesOn = true;
    for (int i = 0; i < types.size() && goesOn; i++) {
      goesOn = put(begin, values.get(i), types.get(i), terms.get(i));
    }
    Object[] found = new Object[BEGIN + DIGEST];
    Arrays.fill(found, 0L);
    for (int i = 0; i < BEGIN; i++) {
      found[i] = Long.reverseBytes(begin.getLong(i * Long.BYTES));
    }
    if (identity != null) {
      ByteBuffer digest = ByteBuffer.wrap(digest(identity));
      found[BEGIN] = digest.getLong();
      found[BEGIN + 1] = digest.getLong();
    }
    return RowFactory.create(found);
  }

  /** Whether two keys have the same prefix, so that their order is arbitrary. */
  public static boolean beginAlike(Row left, Row right) {
    for (int i = 0; i < BEGIN; i++) {
      if (left.getLong(i) != right.getLong(i)) {
        return false;
      }
    }
    return true;
  }

  /** Writes as much of a value as fits; returns whether the next value may follow. */
  private static boolean put(ByteBuffer out, Object value, DataType type, Ranking.Term term) {
    if (value == null) {
      out.put((byte) (term.nullsFirst() ? 0 : 2));
      return out.hasRemaining();
    }
    out.put((byte) 1);
    if (type instanceof StructType struct) {
      return putAll(out, (Row) value, struct, term.descending());
    }
    byte[] bytes = isOrdered(type) ? bytes(value, type) : new byte[0];
    byte[] begin = Arrays.copyOf(bytes, isExact(type) ? Math.min(bytes.length, out.remaining()) : out.remaining());
    for (byte one : begin) {
      out.put((byte) (term.descending() ? ~one : one));
    }
    return out.hasRemaining();
  }

  /** Writes a struct field by field, in the order of {@link Values#compare}. */
  private static boolean putAll(ByteBuffer out, Row values, StructType type, boolean descending) {
    Ranking.Term term = new Ranking.Term(descending, !descending);
    boolean goesOn = out.hasRemaining();
    for (int i = 0; i < type.size() && goesOn; i++) {
      goesOn = put(out, values.get(i), type.fields()[i].dataType(), term);
    }
    return goesOn;
  }

  /** A value as bytes whose order is the order of {@link Values#compare}. */
  private static byte[] bytes(Object value, DataType type) {
    if (value instanceof String text) {
      return text.getBytes(StandardCharsets.UTF_8);
    }
    if (value instanceof byte[] bytes) {
      return bytes;
    }
    if (value instanceof BigDecimal number) {
      BigInteger digits = number.setScale(((DecimalType) type).scale(), RoundingMode.FLOOR).unscaledValue();
      return signed(digits.shiftRight(Long.SIZE).longValue(), digits.longValue());
    }
    if (value instanceof Timestamp time) {
      return signed(time.getTime(), time.getNanos());
    }
    if (value instanceof Instant time) {
      return signed(time.getEpochSecond(), time.getNano());
    }
    if (value instanceof LocalDateTime time) {
      return signed(time.toEpochSecond(ZoneOffset.UTC), time.getNano());
    }
    return ByteBuffer.allocate(Long.BYTES).putLong(number(value) ^ Long.MIN_VALUE).array();
  }

  private static byte[] signed(long high, long low) {
    return ByteBuffer.allocate(2 * Long.BYTES).putLong(high ^ Long.MIN_VALUE).putLong(low).array();
  }

  private static long number(Object value) {
    if (value instanceof Double || value instanceof Float) {
      long bits = Double.doubleToLongBits(((Number) value).doubleValue());
      return bits < 0 ? bits ^ Long.MAX_VALUE : bits;
    }
    if (value instanceof Number number) {
      return number.longValue();
    }
    if (value instanceof Boolean truth) {
      return truth ? 1 : 0;
    }
    return value instanceof LocalDate day ? day.toEpochDay() : ((java.util.Date) value).getTime();
  }

  private static byte[] digest(byte[] identity) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(identity);
    } catch (NoSuchAlgorithmException failure) {
      throw new IllegalStateException(failure); // every JVM has this digest
    }
  }
}
