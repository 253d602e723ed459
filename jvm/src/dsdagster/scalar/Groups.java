package dsdagster.scalar;

import dsdagster.Expressions;
import dsdagster.OperatorFault;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Groups of regular expressions. A group without a part in the match is null; Spark's functions give an empty text. */
public final class Groups implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int KEPT_PATTERNS = 64;
  private static final ThreadLocal<Map<String, Pattern>> PATTERNS = ThreadLocal.withInitial(HashMap::new);

  private Groups() {}

  /** {@link #firstOf}. */
  public static Column first(Column text, Column pattern, Column group) {
    return Expressions.call(new Groups(), "firstOf", DataTypes.StringType, true, text, pattern, group);
  }

  /** {@link #allOf}. */
  public static Column all(Column text, Column pattern, Column group) {
    return Expressions.call(
        new Groups(), "allOf", DataTypes.createArrayType(DataTypes.StringType), true, text, pattern, group);
  }

  /** The group in the first match; null without a match. */
  public UTF8String firstOf(UTF8String text, UTF8String pattern, int group) {
    Matcher matcher = matcher(text, pattern, group);
    return matcher.find() ? UTF8String.fromString(matcher.group(group)) : null;
  }

  /** The group in each match. */
  public ArrayData allOf(UTF8String text, UTF8String pattern, int group) {
    Matcher matcher = matcher(text, pattern, group);
    List<UTF8String> found = new ArrayList<>();
    while (matcher.find()) {
      found.add(UTF8String.fromString(matcher.group(group)));
    }
    return new GenericArrayData(found.toArray());
  }

  private static Matcher matcher(UTF8String text, UTF8String pattern, int group) {
    Matcher matcher = compiled(pattern.toString()).matcher(text.toString());
    int groups = matcher.groupCount();
    if (group < 0 || group > groups) {
      throw OperatorFault.of(
          "REGEX_GROUP_MISSING", Map.of("group", group, "pattern", pattern.toString(), "groups", groups));
    }
    return matcher;
  }

  /** The compiled pattern of a text, from a cache. */
  static Pattern compiled(String text) {
    Map<String, Pattern> patterns = PATTERNS.get();
    Pattern known = patterns.get(text);
    if (known != null) {
      return known;
    }
    if (patterns.size() >= KEPT_PATTERNS) {
      patterns.clear(); // only patterns that are data fill the cache
    }
    Pattern made = made(text);
    patterns.put(text, made);
    return made;
  }

  private static Pattern made(String text) {
    try {
      return Pattern.compile(text);
    } catch (PatternSyntaxException refused) {
      throw OperatorFault.of("PATTERN_INVALID", Map.of("reason", "'" + text + "': " + refused.getDescription()));
    }
  }

  @Override
  public String toString() {
    return "groups";
  }
}
