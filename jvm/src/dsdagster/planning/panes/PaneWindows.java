package dsdagster.planning.panes;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The overlapping windows that a pane is a part of: all rows of a pane are in the same windows. Times are microseconds
 * since 1970; a window includes its start and excludes its end.
 *
 * @param grid windows start at multiples of it: the step of HOP, the size of CUMULATE
 * @param size greatest length of a window
 * @param step between the ends of two windows
 */
record PaneWindows(long grid, long size, long step) implements Serializable {
  /** Entry in the metadata of a group's column: grid, size and step, see ds_dagster/spark/operators/panes.py. */
  private static final String ENTRY = "dsdagster.panes";

  /** The column of a group with the begin of its pane; null if groups are not kept by pane. */
  static Attribute column(Seq<Attribute> group) {
    for (Attribute attribute : CollectionConverters.asJava(group)) {
      if (attribute.metadata().contains(ENTRY)) {
        return attribute;
      }
    }
    return null;
  }

  static PaneWindows of(Attribute column) {
    long[] numbers = column.metadata().getLongArray(ENTRY);
    return new PaneWindows(numbers[0], numbers[1], numbers[2]);
  }

  /** End of the last window with the pane. */
  long lastEnd(long pane) {
    return pane - Math.floorMod(pane, grid) + size;
  }

  /** End of the first window with the pane that ends after a time; after {@link #lastEnd} if there is none. */
  long firstEndAfter(long pane, long time) {
    return nextAfter(lastEnd(pane), Math.max(pane, time));
  }

  /** Whether a window ends after one time, and at or before another. */
  boolean endsBetween(long after, long until) {
    return nextAfter(size, after) <= until;
  }

  /** Number of windows with the pane that end at a time or before. */
  long endedAt(long pane, long time) {
    long last = Math.min(lastEnd(pane), time);
    long first = firstEndAfter(pane, pane);
    return last < first ? 0 : (last - first) / step + 1;
  }

  /** The first time after another one that is a whole number of steps away from an end. */
  private long nextAfter(long end, long time) {
    return time + step - Math.floorMod(time - end, step);
  }
}
