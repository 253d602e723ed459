package dsdagster.scalar;

import dsdagster.Expressions;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Key-value pairs in a text, split as in Flink: {@link Pattern#split}. */
public final class Pairs implements Serializable {
  private static final long serialVersionUID = 1L;

  private Pairs() {}

  /** {@link #mapOf} with commas between pairs and equals signs inside. */
  public static Column of(Column text) {
    return of(text, functions.lit(","), functions.lit("="));
  }

  /** {@link #mapOf}. */
  public static Column of(Column text, Column between, Column inside) {
    return Expressions.call(
        new Pairs(),
        "mapOf",
        DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType),
        true,
        text,
        between,
        inside);
  }

  /** A map of keys and values. Of equal keys the last one is used; a pair without a value has the value null. */
  public MapData mapOf(UTF8String text, UTF8String between, UTF8String inside) {
    Map<UTF8String, UTF8String> pairs = new LinkedHashMap<>();
    Pattern separator = Groups.compiled(inside.toString());
    String[] parts = text.numBytes() == 0 ? new String[0] : Groups.compiled(between.toString()).split(text.toString());
    for (String part : parts) {
      String[] pair = separator.split(part, 2);
      pairs.put(UTF8String.fromString(pair[0]), pair.length > 1 ? UTF8String.fromString(pair[1]) : null);
    }
    return new ArrayBasedMapData(
        new GenericArrayData(pairs.keySet().toArray()), new GenericArrayData(pairs.values().toArray()));
  }

  @Override
  public String toString() {
    return "pairs";
  }
}
