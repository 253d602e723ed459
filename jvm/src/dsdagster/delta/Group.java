package dsdagster.delta;

import dsdagster.OperatorFault;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;

/**
 * How many rows a group has, and the totals of its calls that are kept as numbers.
 *
 * <p>Rule: all of it is one value in the state store; the layout carries a number, an unknown one is refused.
 */
final class Group {
  private static final byte LAYOUT = 2;
  /** Nothing said whether values are sorted: none were. */
  private static final byte WITHOUT_SORTED = 1;

  long rows;
  /** The values of extremes are also kept in their order. */
  boolean isSorted;
  final Total[] totals;

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
      if (layout != LAYOUT && layout != WITHOUT_SORTED) {
        throw new OperatorFault("STATE_LAYOUT_UNKNOWN", "aggregate state has layout " + layout);
      }
      Group group = new Group(calls.size());
      group.rows = in.readLong();
      group.isSorted = layout == LAYOUT && in.readBoolean();
      for (int i = 0; i < calls.size(); i++) {
        group.totals[i] = isTotal(calls.get(i)) ? Total.read(in, calls.get(i)) : null;
      }
      return group;
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  byte[] encode(List<Call> calls) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(16 + 32 * calls.size());
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(LAYOUT);
      out.writeLong(rows);
      out.writeBoolean(isSorted);
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
