package dsdagster.match;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * The bytes of a way or of a chunk of it: what is known of the rows before it, then how often which step comes in a row; a
 * short way without a mark is written step by step where that is shorter.
 */
final class StoredWay {
  private static final byte RUNS = 0;
  private static final byte STEPS = 1;
  private static final byte MARKED = 2;
  private static final int RUN = Short.BYTES + Integer.BYTES;

  final Mark mark;
  private final ByteBuffer in;
  private final boolean areRuns;

  /** @param bytes of {@link #write}; none for the begin of a way */
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

  /** The next step, by its place among those of its state. */
  int choice() {
    return in.getShort();
  }

  /** How often it comes; to be asked for after each {@link #choice}. */
  int times() {
    return areRuns ? in.getInt() : 1;
  }

  /** So many steps, as they were written before there were runs. */
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
