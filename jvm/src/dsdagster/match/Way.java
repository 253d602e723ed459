package dsdagster.match;

import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The path of a search: the steps it has taken, one per row. Repeated steps that lead back to their state are one run
 * with a count. A long path is divided into chunks of runs; all chunks but the last two are in a list of the key, and
 * a search that backtracks reads them again. So the cost of continuing a search depends on the new rows, not on its
 * length.
 *
 * <p>Rule: a path without chunks has the same bytes as in earlier versions, which had no chunks.
 */
final class Way {
  /** Number of chunks in a bucket. */
  private static final int CHUNKS_OF_BUCKET = 128;

  /** Rows that took the same step of the same state. */
  static final class Run {
    private final int state;
    final int choice;
    final int variable;
    private final int first;
    int count;
    /** Index of the previous run of the variable among the runs in memory; negative if there is none. */
    private int earlier;
    /** Carried states after its row, see {@link Carrier}. */
    private final Object[] carried;

    private Run(int state, int choice, int variable, int first, Object[] carried) {
      this.state = state;
      this.choice = choice;
      this.variable = variable;
      this.first = first;
      this.carried = carried;
    }
  }

  /** Computes states from row to row; with a carrier each run has one row. */
  interface Carrier {
    /** @param before states before the row; null for the first row */
    Object[] after(Object[] before, int place, int variable);

    byte[] pack(Object[] carried);

    Object[] unpack(byte[] packed);
  }

  /** Receives the runs of a path. */
  interface Reader {
    void read(int variable, int first, int count);
  }

  private final int[][] steps;
  private final int[] lastsKept;
  private final Carrier carrier;
  private final int chunk = Math.max(1, Buckets.usualLimit() / CHUNKS_OF_BUCKET);
  private final List<Run> runs = new ArrayList<>();
  private final int[] newest;
  private final int[] counts;
  private final int[][] firsts;
  private int state;
  private int length;
  /** Summary of the rows before the first run in memory. */
  private Mark mark;
  /** Summary of the rows before the run at {@link #chunk}. */
  private Mark middle;
  private TimedRows chunks;

  /**
   * @param steps see {@link MatchSettings#steps}
   * @param firstsKept by variable: the number of its first rows that are used; {@code lastsKept}: of its last rows
   * @param carrier null if no state is carried
   */
  Way(int[][] steps, int[] firstsKept, int[] lastsKept, Carrier carrier) {
    this.steps = steps;
    this.lastsKept = lastsKept;
    this.carrier = carrier;
    newest = new int[firstsKept.length];
    counts = new int[firstsKept.length];
    firsts = new int[firstsKept.length][];
    for (int i = 0; i < firsts.length; i++) {
      firsts[i] = new int[firstsKept[i]];
    }
  }

  /**
   * Continues a path.
   *
   * @param written bytes of {@link #written}; empty for a new path
   * @param chunks chunks of the path; null if all of it stays in memory
   */
  void begin(byte[] written, TimedRows chunks) {
    this.chunks = chunks;
    if (written.length == 0 && chunks != null) {
      chunks.clear();
    }
    read(written);
  }

  private void read(byte[] written) {
    StoredWay stored = new StoredWay(written, counts.length);
    runs.clear();
    Arrays.fill(newest, -1);
    mark = stored.mark;
    state = mark.state();
    length = mark.length();
    for (int i = 0; i < counts.length; i++) {
      counts[i] = mark.counts()[i];
      System.arraycopy(mark.firsts()[i], 0, firsts[i], 0, mark.firsts()[i].length);
    }
    while (stored.hasNext()) {
      int choice = stored.choice();
      for (int left = stored.times(); left > 0; ) {
        boolean isLoop = carrier == null && steps[state][2 * choice + 1] == state;
        int times = isLoop ? left : 1;
        push(choice, times);
        left -= times;
      }
    }
  }

  /** The path as bytes, from which {@link #begin} continues. */
  byte[] written() {
    return StoredWay.write(mark, runs);
  }

  int state() {
    return state;
  }

  /** Number of rows. */
  int length() {
    return length;
  }

  int count(int variable) {
    return counts[variable];
  }

  void push(int choice) {
    push(choice, 1);
  }

  private void push(int choice, int times) {
    int variable = steps[state][2 * choice];
    Run last = runs.isEmpty() ? null : runs.get(runs.size() - 1);
    if (carrier == null && last != null && last.state == state && last.choice == choice) {
      last.count += times;
    } else {
      add(choice, variable, times);
    }
    for (int i = counts[variable]; i < Math.min(firsts[variable].length, counts[variable] + times); i++) {
      firsts[variable][i] = length + i - counts[variable];
    }
    counts[variable] += times;
    length += times;
    state = steps[state][2 * choice + 1];
  }

  private void add(int choice, int variable, int times) {
    if (chunks != null && runs.size() == 2 * chunk) {
      store();
    }
    if (chunks != null && runs.size() == chunk) {
      middle = mark();
    }
    Object[] carried = carrier == null ? null : carrier.after(carried(), length, variable);
    Run run = new Run(state, choice, variable, length, carried);
    run.count = times;
    link(run, runs.size());
    runs.add(run);
  }

  private void link(Run run, int place) {
    run.earlier = newest[run.variable];
    newest[run.variable] = place;
  }

  /** Removes the last row; returns its step. */
  int pop() {
    if (runs.isEmpty()) {
      read(chunks.removeLast().payload());
    }
    Run last = runs.get(runs.size() - 1);
    counts[last.variable]--;
    length--;
    state = last.state;
    if (--last.count == 0) {
      newest[last.variable] = last.earlier;
      runs.remove(runs.size() - 1);
    }
    return last.choice;
  }

  /** Moves the first half of the runs to the chunks. */
  private void store() {
    List<Run> oldest = runs.subList(0, chunk);
    chunks.add(new TimedRow(mark.length(), null, StoredWay.write(mark, oldest)));
    oldest.clear();
    mark = middle;
    Arrays.fill(newest, -1);
    for (int i = 0; i < runs.size(); i++) {
      link(runs.get(i), i);
    }
  }

  private Mark mark() {
    int[][] first = new int[counts.length][];
    int[][] last = new int[counts.length][];
    for (int i = 0; i < counts.length; i++) {
      first[i] = Arrays.copyOf(firsts[i], Math.min(counts[i], firsts[i].length));
      last[i] = new int[Math.min(counts[i], lastsKept[i])];
      for (int back = 0; back < last[i].length; back++) {
        last[i][back] = last(i, back);
      }
    }
    return new Mark(state, length, counts.clone(), first, last, carrier == null ? null : carrier.pack(carried()));
  }

  /** Place of a row of a variable, counted from its first row; only for kept rows. */
  int first(int variable, int number) {
    return firsts[variable][number];
  }

  /** Place of a row of a variable, counted back from its last row. */
  int last(int variable, int number) {
    int left = number;
    for (int i = newest[variable]; i >= 0; i = runs.get(i).earlier) {
      Run run = runs.get(i);
      if (left < run.count) {
        return run.first + run.count - 1 - left;
      }
      left -= run.count;
    }
    return mark.lasts()[variable][left];
  }

  /** Carried states after the last row; null before the first row. */
  Object[] carried() {
    if (!runs.isEmpty()) {
      return runs.get(runs.size() - 1).carried;
    }
    return mark.carried() == null ? null : carrier.unpack(mark.carried());
  }

  /** Passes all rows, from the first on, to a reader. */
  void read(Reader reader) {
    if (chunks != null) {
      for (TimedRows.Cursor each = chunks.between(0, Long.MAX_VALUE); each.hasNext(); ) {
        read(new StoredWay(each.next().payload(), counts.length), reader);
      }
    }
    for (Run run : runs) {
      reader.read(run.variable, run.first, run.count);
    }
  }

  private void read(StoredWay stored, Reader reader) {
    int at = stored.mark.state();
    int place = stored.mark.length();
    while (stored.hasNext()) {
      int choice = stored.choice();
      int count = stored.times(); // more than one only if the step leads back to its state
      reader.read(steps[at][2 * choice], place, count);
      at = steps[at][2 * choice + 1];
      place += count;
    }
  }
}
