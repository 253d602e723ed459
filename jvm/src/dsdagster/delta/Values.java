package dsdagster.delta;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import scala.collection.Iterator;
import scala.collection.Seq;

/** Values as Spark gives them to operators: their total order, and keys for hash maps. */
public final class Values {
  private Values() {}

  /** A key for hash maps: keys are equal exactly if the values are. {@link #value} is the inverse. */
  public static Object key(Object value) {
    if (value instanceof Row row) {
      return new Parts(keys(row.toSeq()), row);
    }
    if (value instanceof Seq<?> elements) {
      return new Parts(keys(elements), elements);
    }
    return value instanceof byte[] bytes ? ByteBuffer.wrap(bytes) : value;
  }

  public static Object value(Object key) {
    if (key instanceof Parts parts) {
      return parts.whole();
    }
    return key instanceof ByteBuffer buffer ? buffer.array() : key;
  }

  private static List<Object> keys(Seq<?> values) {
    List<Object> parts = new ArrayList<>(values.length());
    Iterator<?> all = values.iterator();
    while (all.hasNext()) {
      parts.add(key(all.next()));
    }
    return parts;
  }

  /** A row or an array by its parts: its own equality ignores the content of byte arrays, and two NaN differ for it. */
  private record Parts(List<Object> parts, Object whole) {
    @Override
    public boolean equals(Object other) {
      return other instanceof Parts key && key.parts.equals(parts);
    }

    @Override
    public int hashCode() {
      return parts.hashCode();
    }
  }

  public static Row row(Object key) {
    return RowFactory.create(value(key));
  }

  /** Compares as Spark does: nulls first, texts by code point, bytes unsigned, arrays and structs by their parts. */
  @SuppressWarnings({"unchecked", "rawtypes"})
  public static int compare(Object left, Object right) {
    if (left == null || right == null) {
      return left == right ? 0 : left == null ? -1 : 1;
    }
    if (left instanceof String text) {
      return byCodePoint(text, (String) right);
    }
    if (left instanceof byte[] bytes) {
      return Arrays.compareUnsigned(bytes, (byte[]) right);
    }
    if (left instanceof Row row) {
      return compare(row.toSeq(), ((Row) right).toSeq());
    }
    if (left instanceof Seq<?> parts) {
      return byParts(parts, (Seq<?>) right);
    }
    return ((Comparable) left).compareTo(right);
  }

  private static int byParts(Seq<?> left, Seq<?> right) {
    Iterator<?> ours = left.iterator();
    Iterator<?> theirs = right.iterator();
    while (ours.hasNext() && theirs.hasNext()) {
      int order = compare(ours.next(), theirs.next());
      if (order != 0) {
        return order;
      }
    }
    return Boolean.compare(ours.hasNext(), theirs.hasNext());
  }

  /** Order of code points, as in UTF-8. UTF-16 puts characters of higher planes before some of the first plane. */
  private static int byCodePoint(String left, String right) {
    int shorter = Math.min(left.length(), right.length());
    for (int i = 0; i < shorter; i++) {
      char ours = left.charAt(i);
      char theirs = right.charAt(i);
      if (ours != theirs) {
        boolean oursIsHigh = Character.isSurrogate(ours);
        boolean theirsIsHigh = Character.isSurrogate(theirs);
        return oursIsHigh == theirsIsHigh ? Character.compare(ours, theirs) : oursIsHigh ? 1 : -1;
      }
    }
    return Integer.compare(left.length(), right.length());
  }
}
