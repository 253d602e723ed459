package dsdagster.delta;

import dsdagster.OperatorFault;
import dsdagster.delta.OverState.Passing;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The rows that the results of a row are made of.
 *
 * <p>Rule: a frame that reaches back to the beginning keeps totals and no rows; any other keeps its rows, from which the
 * totals are made anew when it is read.
 */
final class Frame {
  private static final byte LAYOUT = 1;

  private final List<OverCall> calls;
  private final boolean byTime;
  private final long before;
  private final Total[] totals;
  private final Object[] values;
  private final List<Extremes> extremes = new ArrayList<>();
  private final Deque<Reached> rows = new ArrayDeque<>();
  private long count;
  /** Rows of a bounded frame that have left it. */
  private long left;

  /** A row of a bounded frame with its arguments. */
  private record Reached(Passing row, Row arguments) {}

  /** @param before see {@link EventOver#apply} */
  Frame(List<OverCall> calls, boolean byTime, long before) {
    this.calls = calls;
    this.byTime = byTime;
    this.before = before;
    this.totals = new Total[calls.size()];
    this.values = new Object[calls.size()];
    for (int i = 0; i < totals.length; i++) {
      totals[i] = new Total();
      extremes.add(new Extremes(calls.get(i).call().function()));
    }
  }

  private boolean isBounded() {
    return before >= 0;
  }

  /** What is stored of the values that are no totals: one column per call. */
  static StructType valueSchema(List<OverCall> calls) {
    StructType found = new StructType();
    for (int i = 0; i < calls.size(); i++) {
      found = found.add("v" + i, calls.get(i).type());
    }
    return found;
  }

  /** Takes a row in, and lets those go that it no longer reaches. */
  void add(Passing row, Row arguments) {
    count++;
    if (isBounded()) {
      rows.addLast(new Reached(row, arguments));
    }
    for (int i = 0; i < totals.length; i++) {
      take(i, value(i, arguments), 1);
    }
  }

  /** Lets go what is out of reach from a row of that time. */
  void reach(long ts) {
    while (isBounded() && (byTime ? rows.getFirst().row().ts() < ts - before : rows.size() > before + 1)) {
      Reached gone = rows.removeFirst();
      count--;
      left++;
      for (int i = 0; i < totals.length; i++) {
        switch (calls.get(i).kind()) {
          case TOTAL -> take(i, value(i, gone.arguments()), -1);
          case EXTREME -> extremes.get(i).forget(left);
          default -> { }
        }
      }
    }
  }

  private Object value(int call, Row arguments) {
    return arguments.get(calls.get(call).argument());
  }

  private void take(int index, Object value, long weight) {
    OverCall call = calls.get(index);
    switch (call.kind()) {
      case TOTAL -> {
        if (value != null) {
          totals[index].add(call.call().function(), value, weight);
        }
      }
      case EXTREME -> takeExtreme(index, value);
      case FIRST_VALUE -> values[index] = count == 1 ? value : values[index];
      default -> values[index] = value;
    }
  }

  private void takeExtreme(int index, Object value) {
    if (value == null) {
      return;
    }
    if (isBounded()) {
      extremes.get(index).add(left + count - 1, value);
    } else if (values[index] == null || Extremes.isBetter(calls.get(index).call().function(), value, values[index])) {
      values[index] = value;
    }
  }

  /** The results as they are now. */
  Object result(int index) {
    OverCall call = calls.get(index);
    return switch (call.kind()) {
      case TOTAL -> totals[index].result(call.call());
      case EXTREME -> isBounded() ? extremes.get(index).best() : values[index];
      case FIRST_VALUE -> isBounded() ? value(index, rows.getFirst().arguments()) : values[index];
      case LAG -> rows.size() > before ? value(index, rows.getFirst().arguments()) : null;
      case LAST_VALUE -> values[index];
    };
  }

  /** What of a bounded frame is kept: no longer the rows themselves. */
  List<Passing> rows() {
    List<Passing> found = new ArrayList<>(rows.size());
    rows.forEach(kept -> found.add(new Passing(kept.row().ts(), kept.row().arguments(), null)));
    return found;
  }

  /** What an unbounded frame keeps. */
  Row stored() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(16 + 32 * calls.size());
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(LAYOUT);
      out.writeLong(count);
      for (int i = 0; i < totals.length; i++) {
        if (calls.get(i).kind() == OverCall.Kind.TOTAL) {
          totals[i].write(out, calls.get(i).call());
        }
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return RowFactory.create(bytes.toByteArray(), RowFactory.create(values.clone()));
  }

  void restore(Row stored) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(stored.getAs(0)))) {
      byte layout = in.readByte();
      if (layout != LAYOUT) {
        throw new OperatorFault("STATE_LAYOUT_UNKNOWN", "totals over rows have layout " + layout);
      }
      count = in.readLong();
      for (int i = 0; i < totals.length; i++) {
        if (calls.get(i).kind() == OverCall.Kind.TOTAL) {
          totals[i] = Total.read(in, calls.get(i).call());
        }
        values[i] = stored.getStruct(1).get(i);
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  static StructType storedSchema(List<OverCall> calls) {
    return new StructType().add("totals", DataTypes.BinaryType).add("values", valueSchema(calls));
  }
}
