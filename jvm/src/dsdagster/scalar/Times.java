package dsdagster.scalar;

import dsdagster.Expressions;
import dsdagster.OperatorFault;
import java.io.Serializable;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Date;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TimeZone;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Times in texts by the dialect's rules, which differ from Spark's. */
public final class Times implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int KEPT_PATTERNS = 64;
  private static final long MICROS = 1_000_000;
  private static final ThreadLocal<Map<String, SimpleDateFormat>> FORMATS = ThreadLocal.withInitial(HashMap::new);

  private Times() {}

  /** {@link #toMillis}. */
  public static Column millis(Column text, Column pattern) {
    return Expressions.call(new Times(), "toMillis", DataTypes.LongType, true, text, pattern);
  }

  /**
   * Milliseconds since 1970 of a text in UTC; null when it does not begin with a time of the pattern.
   *
   * <p>Parsed as by {@link SimpleDateFormat}, which Flink uses here: text after the pattern is ignored. Unlike in
   * Flink a day that does not exist (30 February) is not a valid time.
   */
  public Long toMillis(UTF8String text, UTF8String pattern) {
    ParsePosition place = new ParsePosition(0);
    Date read = format(pattern.toString()).parse(text.toString(), place);
    return read == null || place.getIndex() == 0 ? null : read.getTime();
  }

  /** {@link #toMonths}. */
  public static Column months(Column begin, Column end) {
    return Expressions.call(new Times(), "toMonths", DataTypes.LongType, true, begin, end);
  }

  /**
   * Whole months between two times (microseconds since 1970): the largest number of months that can be added to the
   * earlier time without passing the later one. A day that a month does not have is the month's last day.
   */
  public long toMonths(long begin, long end) {
    if (end < begin) {
      return -toMonths(end, begin);
    }
    LocalDateTime first = time(begin);
    LocalDateTime last = time(end);
    long months = (last.getYear() - first.getYear()) * 12L + last.getMonthValue() - first.getMonthValue();
    return first.plusMonths(months).isAfter(last) ? months - 1 : months;
  }

  private static LocalDateTime time(long micros) {
    int nanos = (int) Math.floorMod(micros, MICROS) * 1000;
    return LocalDateTime.ofEpochSecond(Math.floorDiv(micros, MICROS), nanos, ZoneOffset.UTC);
  }

  private static SimpleDateFormat format(String pattern) {
    Map<String, SimpleDateFormat> formats = FORMATS.get();
    SimpleDateFormat known = formats.get(pattern);
    if (known != null) {
      return known;
    }
    if (formats.size() >= KEPT_PATTERNS) {
      formats.clear(); // only patterns that are data fill the cache
    }
    SimpleDateFormat made = made(pattern);
    formats.put(pattern, made);
    return made;
  }

  private static SimpleDateFormat made(String pattern) {
    try {
      SimpleDateFormat made = new SimpleDateFormat(pattern, Locale.US);
      made.setTimeZone(TimeZone.getTimeZone("UTC"));
      made.setLenient(false);
      ((GregorianCalendar) made.getCalendar()).setGregorianChange(new Date(Long.MIN_VALUE)); // Gregorian throughout
      return made;
    } catch (IllegalArgumentException refused) {
      throw OperatorFault.of("PATTERN_INVALID", Map.of("reason", "a letter of it is not one of SimpleDateFormat's"));
    }
  }

  @Override
  public String toString() {
    return "times";
  }
}
