package dsdagster.match;

import dsdagster.state.TimedRow;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * A search that has not ended: the number of the row it begins at, and which step of each state it is at. What stands in
 * front of these steps has failed, what stands behind them has not been tried.
 *
 * <p>Rule: it is written as how often which step comes in a row, since a search that waits for long repeats one, or step
 * by step where that is shorter.
 */
final class Search {
  private static final byte RUNS = 0;
  private static final byte STEPS = 1;
  private static final int RUN = Short.BYTES + Integer.BYTES;

  final long start;
  short[] choices;

  Search(long start) {
    this(start, new short[0]);
  }

  Search(long start, short[] choices) {
    this.start = start;
    this.choices = choices;
  }

  /** Reads what {@link #written} gave. */
  static Search read(TimedRow written) {
    ByteBuffer in = ByteBuffer.wrap(written.payload());
    boolean areRuns = in.get() == RUNS;
    short[] choices = new short[areRuns ? in.getInt() : in.remaining() / Short.BYTES];
    for (int i = 0; i < choices.length; ) {
      short choice = in.getShort();
      int end = i + (areRuns ? in.getInt() : 1);
      Arrays.fill(choices, i, end, choice);
      i = end;
    }
    return new Search(written.ts(), choices);
  }

  /** As a row of a list that is in the order of where searches begin. */
  TimedRow written() {
    int runs = 0;
    for (int i = 0; i < choices.length; i++) {
      runs += i == 0 || choices[i] != choices[i - 1] ? 1 : 0;
    }
    boolean areRuns = Integer.BYTES + runs * (long) RUN < choices.length * (long) Short.BYTES;
    int size = areRuns ? Integer.BYTES + runs * RUN : choices.length * Short.BYTES;
    ByteBuffer out = ByteBuffer.allocate(1 + size).put(areRuns ? RUNS : STEPS);
    if (areRuns) {
      out.putInt(choices.length);
    }
    for (int i = 0, end; i < choices.length; i = end) {
      end = areRuns ? endOfRun(i) : i + 1;
      out.putShort(choices[i]);
      if (areRuns) {
        out.putInt(end - i);
      }
    }
    return new TimedRow(start, null, out.array());
  }

  private int endOfRun(int first) {
    int end = first + 1;
    while (end < choices.length && choices[end] == choices[first]) {
      end++;
    }
    return end;
  }

  boolean isWrittenAs(TimedRow row) {
    return row.ts() == start && Arrays.equals(row.payload(), written().payload());
  }
}
