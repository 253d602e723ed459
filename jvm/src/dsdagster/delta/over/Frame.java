package dsdagster.delta.over;

import dsdagster.Layout;
import dsdagster.OperatorFault;
import dsdagster.delta.aggregate.Total;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The frame of OVER: the rows that the results of a row are computed from.
 *
 * <p>Rule: an unbounded frame keeps totals and no rows. A bounded frame keeps its rows; a short one computes its totals
 * from them when it is read, a long one stores its totals too.
 */
final class Frame {
  private static final byte LAYOUT = 1;

  private final List<OverCall> calls;
  private final boolean byTime;
  private final long before;
  private final Function<byte[], Row> reader;
  private final Total[] totals;
  private final Object[] values;
  /** State of the calls that are extremes. */
  private final List<Extremes> extremes = new ArrayList<>();
  private final Buckets buckets;
  /** Rows of a bounded frame: time and arguments. */
  private TimedRows rows;
  private long count;
  /** Number of rows that have left a bounded frame. */
  private long left;
  /** Whether totals and extremes agree with the rows. */
  private boolean isReady;
  private TimedRow first;
  private Row firstArguments;

  /**
   * An empty frame.
   *
   * @param before see {@link EventOver#apply}
   * @param reader reads packed arguments
   */
  Frame(List<OverCall> calls, boolean byTime, long before, Function<byte[], Row> reader, Buckets buckets) {
    this.calls = calls;
    this.byTime = byTime;
    this.before = before;
    this.reader = reader;
    this.buckets = buckets;
    this.totals = new Total[calls.size()];
    this.values = new Object[calls.size()];
    this.rows = new TimedRows(buckets, OverState.FRAME, TimedRow.BY_TIME);
    for (int i = 0; i < totals.length; i++) {
      totals[i] = new Total();
      extremes.add(isExtreme(i) ? extremes(i, empty(i)) : null);
    }
  }

  private TimedRows empty(int call) {
    return new TimedRows(buckets, list(call), TimedRow.BY_TIME);
  }

  private static int list(int call) {
    return OverState.FRAME + 1 + call;
  }

  private Extremes extremes(int call, TimedRows candidates) {
    return new Extremes(calls.get(call), candidates, arguments -> value(call, reader.apply(arguments)));
  }

  private boolean isExtreme(int call) {
    return isBounded() && calls.get(call).kind() == OverCall.Kind.EXTREME;
  }

  private boolean isTotal(int call) {
    return calls.get(call).kind() == OverCall.Kind.TOTAL;
  }

  boolean isBounded() {
    return before >= 0;
  }

  /** The stored values of calls without totals: one column per call. */
  static StructType valueSchema(List<OverCall> calls) {
    StructType found = new StructType();
    for (int i = 0; i < calls.size(); i++) {
      found = found.add("v" + i, calls.get(i).type());
    }
    return found;
  }

  /** Whether no rows are kept. */
  boolean isEmpty() {
    return rows.isEmpty();
  }

  /** Removes all rows and totals. */
  void clear() {
    rows.clear();
    count = 0;
    for (int i = 0; i < totals.length; i++) {
      totals[i] = new Total();
      values[i] = null;
      if (isExtreme(i)) {
        extremes.get(i).clear();
      }
    }
  }

  /** Adds a row; {@link #reach} then removes rows that are out of the frame. */
  void add(TimedRow row) {
    prepare();
    if (isBounded()) {
      rows.add(new TimedRow(row.ts(), row.order(), null));
    }
    count++;
    take(row.order());
  }

  private void take(byte[] packed) {
    Row arguments = reader.apply(packed);
    for (int i = 0; i < totals.length; i++) {
      Object value = value(i, arguments);
      switch (calls.get(i).kind()) {
        case TOTAL -> add(i, value, 1);
        case EXTREME -> takeExtreme(i, packed, value);
        case FIRST_VALUE -> values[i] = count == 1 ? value : values[i];
        default -> values[i] = value;
      }
    }
  }

  private void takeExtreme(int index, byte[] packed, Object value) {
    if (isBounded()) {
      extremes.get(index).add(left + count - 1, packed, value);
    } else {
      values[index] = Extremes.better(calls.get(index), value, values[index]);
    }
  }

  private void add(int index, Object value, long weight) {
    if (value != null) {
      totals[index].add(calls.get(index).call().function(), value, weight);
    }
  }

  /** Removes the rows that are not in the frame of a row of that time. */
  void reach(long ts) {
    while (isBounded() && (byTime ? rows.firstTime() < ts - before : count > before + 1)) {
      Row gone = reader.apply(rows.removeFirst().order());
      count--;
      left++;
      for (int i = 0; i < totals.length; i++) {
        if (isTotal(i)) {
          add(i, value(i, gone), -1);
        } else if (isExtreme(i)) {
          extremes.get(i).forget(left);
        }
      }
    }
  }

  private Object value(int call, Row arguments) {
    return arguments.get(calls.get(call).argument());
  }

  /** The result of a call for the present frame. */
  Object result(int index) {
    OverCall call = calls.get(index);
    return switch (call.kind()) {
      case TOTAL -> totals[index].result(call.call());
      case EXTREME -> isBounded() ? extremes.get(index).best() : values[index];
      case FIRST_VALUE -> isBounded() ? value(index, first()) : values[index];
      case LAG -> count > before ? value(index, first()) : null;
      case LAST_VALUE -> values[index];
    };
  }

  private Row first() {
    TimedRow now = rows.first();
    if (now != first) {
      first = now;
      firstArguments = reader.apply(now.order());
    }
    return firstArguments;
  }

  /** Computes totals and extremes from the rows if they were not stored. */
  private void prepare() {
    if (isReady) {
      return;
    }
    isReady = true;
    TimedRows.Cursor known = rows.between(Long.MIN_VALUE, Long.MAX_VALUE);
    while (known.hasNext()) {
      count++;
      take(known.next().order());
    }
  }

  /** Number of stored bytes of a bounded frame; writes its buckets. */
  long encodedSize() {
    long size = rows.encodedSize() + 1;
    if (rows.isShort()) {
      extremes.stream().filter(Objects::nonNull).forEach(Extremes::clear);
      return size;
    }
    prepare();
    size += Long.BYTES + Layout.size(totalBytes());
    for (Extremes one : extremes) {
      size += one == null ? 0 : one.candidates().encodedSize();
    }
    return size;
  }

  /** Writes a bounded frame. */
  void put(ByteBuffer out) {
    rows.put(out);
    out.put((byte) (rows.isShort() ? 0 : 1));
    if (!rows.isShort()) {
      Layout.put(out.putLong(left), totalBytes());
      extremes.stream().filter(Objects::nonNull).forEach(one -> one.candidates().put(out));
    }
  }

  /**
   * Reads the bytes of {@link #put}.
   *
   * @param hasTotals false for the layout of earlier versions, which has rows only
   */
  void get(ByteBuffer in, boolean hasTotals) {
    rows = TimedRows.get(in, buckets, OverState.FRAME, TimedRow.BY_TIME);
    if (!hasTotals || in.get() == 0) {
      return;
    }
    left = in.getLong();
    readTotals(Layout.get(in));
    for (int i = 0; i < extremes.size(); i++) {
      if (isExtreme(i)) {
        extremes.set(i, extremes(i, TimedRows.get(in, buckets, list(i), TimedRow.BY_TIME)));
      }
    }
    isReady = true;
  }

  /** The totals of an unbounded frame, for storing. */
  Row stored() {
    return RowFactory.create(totalBytes(), RowFactory.create(values.clone()));
  }

  void restore(Row stored) {
    readTotals(stored.getAs(0));
    for (int i = 0; i < values.length; i++) {
      values[i] = stored.getStruct(1).get(i);
    }
  }

  private byte[] totalBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(16 + 32 * calls.size());
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(LAYOUT);
      out.writeLong(count);
      for (int i = 0; i < totals.length; i++) {
        if (isTotal(i)) {
          totals[i].write(out, calls.get(i).call());
        }
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return bytes.toByteArray();
  }

  private void readTotals(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      byte layout = in.readByte();
      if (layout != LAYOUT) {
        throw new OperatorFault("STATE_LAYOUT_UNKNOWN", "totals over rows have layout " + layout);
      }
      count = in.readLong();
      for (int i = 0; i < totals.length; i++) {
        if (isTotal(i)) {
          totals[i] = Total.read(in, calls.get(i).call());
        }
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  static StructType storedSchema(List<OverCall> calls) {
    return new StructType().add("totals", DataTypes.BinaryType).add("values", valueSchema(calls));
  }
}
