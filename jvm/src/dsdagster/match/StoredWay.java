package dsdagster.match;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * The bytes of a path or of a chunk of it: a {@link Mark} of the rows before it, then runs of equal steps. A short path
 * without a mark is written step by step if that is shorter.
 */
final class StoredWay {
  private static final byte RUNS = 0;
  private static final byte STEPS = 1;
  private static final byte MARKED = 2;
  private static final int RUN = Short.BYTES + Integer.BYTES;

  final Mark mark;
  private final ByteBuffer in;
  private final boolean areRuns;

  /** @param bytes bytes of {@link #write}; empty for the beginning of a path */
  StoredWay(byte[] bytes, int variables) {
    in = ByteBuffer.wrap(bytes);
    byte form = in.hasRemaining() ? in.get() : STEPS;
    areRuns = form != STEPS;
    if (form == RUNS) {
      in.getInt(); // number of rows
    }
    mark = form == MARKED ? Mark.get(in) : Mark.start(variables);
  }

  boolean hasNext() {
    return in.hasRemaining();
  }

  /** The next step, as its index among the steps of its state. */
  int choice() {
    return in.getShort();
  }

  /** Length of the step's run; to be called after each {@link #choice}. */
  int times() {
    return areRuns ? in.getInt() : 1;
  }

  /** Reads {@code count} steps in the layout of earlier versions, which had no runs. */
  static byte[] ofSteps(ByteBuffer in, int count) {
    byte[] bytes = new byte[1 + count * Short.BYTES];
    bytes[0] = STEPS;
    in.get(bytes, 1, count * Short.BYTES);
    return bytes;
  }

  static byte[] write(Mark mark, List<Way.Run> runs) {
    int rows = 0;
    for (Way.Run run : runs) {
      rows += run.count;
    }
    boolean isMarked = mark.length() > 0;
    long asRuns = (long) runs.size() * RUN;
    boolean areRuns = isMarked || Integer.BYTES + asRuns < (long) rows * Short.BYTES;
    long size = (isMarked ? mark.size() : areRuns ? Integer.BYTES : 0) + (areRuns ? asRuns : (long) rows * Short.BYTES);
    ByteBuffer out = ByteBuffer.allocate(Math.toIntExact(1 + size));
    if (isMarked) {
      mark.put(out.put(MARKED));
    } else if (areRuns) {
      out.put(RUNS).putInt(rows);
    } else {
      out.put(STEPS);
    }
    for (Way.Run run : runs) {
      for (int left = areRuns ? 1 : run.count; left > 0; left--) {
        out.putShort((short) run.choice);
      }
      if (areRuns) {
        out.putInt(run.count);
      }
    }
    return out.array();
  }
}
