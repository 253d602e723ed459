package dsdagster.delta.aggregate;

import dsdagster.OperatorFault;
import dsdagster.delta.HeldWeights;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;

/**
 * The number of rows of a group, and the totals of its calls.
 *
 * <p>Rule: all of it is one value in the state store. Its layout has a number; an unknown number is refused.
 */
final class Group {
  private static final byte LAYOUT = 2;
  /** Layout that also has the values which are kept one by one. */
  private static final byte WITH_VALUES = 3;
  /** Earlier layout without a flag for sorted values: they were never sorted. */
  private static final byte WITHOUT_SORTED = 1;

  long rows;
  /** Whether the values of extremes are also kept in their order. */
  boolean isSorted;
  final Total[] totals;
  /** By argument: its values as {@link HeldWeights} writes them. Null if each value is an entry of the state store. */
  byte[][] values;

  private Group(int calls) {
    totals = new Total[calls];
  }

  private static boolean isTotal(Call call) {
    return !call.function().isExtreme() && call.function() != Call.Function.ARRAY_AGG && call.argument() >= 0;
  }

  static Group empty(List<Call> calls) {
    Group group = new Group(calls.size());
    for (int i = 0; i < calls.size(); i++) {
      group.totals[i] = isTotal(calls.get(i)) ? new Total() : null;
    }
    return group;
  }

  static Group decode(byte[] bytes, List<Call> calls) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      byte layout = in.readByte();
      if (layout != LAYOUT && layout != WITHOUT_SORTED && layout != WITH_VALUES) {
        throw new OperatorFault("STATE_LAYOUT_UNKNOWN", "aggregate state has layout " + layout);
      }
      Group group = new Group(calls.size());
      group.rows = in.readLong();
      group.isSorted = layout == LAYOUT && in.readBoolean();
      group.values = layout == WITH_VALUES ? readValues(in) : null;
      for (int i = 0; i < calls.size(); i++) {
        group.totals[i] = isTotal(calls.get(i)) ? Total.read(in, calls.get(i)) : null;
      }
      return group;
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  private static byte[][] readValues(DataInputStream in) throws IOException {
    byte[][] values = new byte[in.readShort()][];
    for (int i = 0; i < values.length; i++) {
      values[i] = in.readNBytes(in.readInt());
    }
    return values;
  }

  private void writeValues(DataOutputStream out) throws IOException {
    out.writeShort(values.length);
    for (byte[] one : values) {
      out.writeInt(one.length);
      out.write(one);
    }
  }

  byte[] encode(List<Call> calls) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(16 + 32 * calls.size());
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(values == null ? LAYOUT : WITH_VALUES);
      out.writeLong(rows);
      if (values == null) {
        out.writeBoolean(isSorted);
      } else {
        writeValues(out);
      }
      for (int i = 0; i < calls.size(); i++) {
        if (totals[i] != null) {
          totals[i].write(out, calls.get(i));
        }
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return bytes.toByteArray();
  }
}
