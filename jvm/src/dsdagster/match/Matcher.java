package dsdagster.match;

import dsdagster.Conditions;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.util.Arrays;
import java.util.BitSet;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Searches the rows of a key for matches, one key at a time.
 *
 * <p>A search goes depth first through the steps of the automaton in the order of preference, so the first path to the
 * end is the match that the standard prefers. If it needs a row that has not arrived, it stops, keeps only its current
 * path (all paths tried before have failed for good), and later continues from there. So neither batches nor restarts
 * change the matches.
 */
final class Matcher {
  private enum Outcome {
    MATCH,
    NONE,
    WAITS
  }

  private final MatchSettings settings;
  private final Conditions conditions;
  private final Path path;
  private final GenericInternalRow tested;
  private final boolean isPlain;
  private final boolean isAlone;
  private final int fields;
  /** By state: lengths of the path from which it is known to lead to no match; null if there are none. */
  private BitSet[] failed;
  private KeyState state;
  private long time;
  /** The waiting searches, if every row begins a search. */
  private TimedRows.Cursor open;
  private long fresh;
  /** The only search, if the next one begins after its end. */
  private TimedRow only;

  Matcher(MatchSettings settings, Conditions conditions, StructType row) {
    this.settings = settings;
    this.conditions = conditions;
    path = new Path(settings, row);
    tested = new GenericInternalRow(settings.values().size());
    isPlain = settings.isPlain();
    isAlone = settings.skip() != MatchSettings.Skip.TO_NEXT;
    fields = row.size();
  }

  /**
   * Begins with a key; {@link #next} then searches to the last row.
   *
   * @param started number of the first row at which no search has begun yet; only used if matches overlap
   * @param time all rows before this time have arrived
   */
  void begin(KeyState state, long started, long time) {
    this.state = state;
    this.time = time;
    fresh = started;
    open = state.searches.between(Long.MIN_VALUE, started - 1);
    if (isAlone) {
      only = open.hasNext() ? open.next() : begun(state.rows.first());
    }
  }

  /** Finds the next match; its path is valid until the next call. Null if there are no more matches. */
  Path next() {
    boolean isFound = isAlone ? nextAlone() : nextTogether();
    if (!isFound) {
      state.trim();
    }
    return isFound ? path : null;
  }

  /** Finds the next match if every row begins a search that is independent of others. */
  private boolean nextTogether() {
    while (open.hasNext()) {
      TimedRow known = open.next();
      Outcome outcome = search(known);
      if (outcome != Outcome.WAITS) {
        open.remove();
      } else if (!isAt(known)) {
        open.replace(written(known));
      }
      if (outcome == Outcome.MATCH) {
        return true;
      }
    }
    while (fresh < state.rows.end()) {
      TimedRow search = begun(fresh++);
      Outcome outcome = search(search);
      if (outcome == Outcome.MATCH) {
        return true;
      }
      if (outcome == Outcome.WAITS) {
        state.searches.add(written(search));
      }
    }
    return false;
  }

  /** Finds the next match if the beginning of a search depends on the previous match. */
  private boolean nextAlone() {
    while (only.ts() < state.rows.end()) {
      state.rows.forgetBefore(only.ts());
      Outcome outcome = search(only);
      if (outcome == Outcome.WAITS) {
        waitFor(only);
        return false;
      }
      only = begun(only.ts() + (outcome == Outcome.MATCH ? skipped() : 1));
      if (outcome == Outcome.MATCH) {
        return true;
      }
    }
    state.endSearches();
    return false;
  }

  private void waitFor(TimedRow search) {
    TimedRow known = state.searches.first();
    if (known == null || known.ts() != search.ts() || !isAt(known)) {
      state.searches.clear();
      state.searches.add(written(search));
    }
  }

  /** A search that has taken no row. */
  private static TimedRow begun(long start) {
    return new TimedRow(start, null, new byte[0]);
  }

  /** The search with the present path, for storing. */
  private TimedRow written(TimedRow search) {
    return new TimedRow(search.ts(), null, path.written());
  }

  private boolean isAt(TimedRow known) {
    return Arrays.equals(known.payload(), path.written());
  }

  /** Number of rows of the match to skip; never zero, since patterns for which it could be zero are refused. */
  private int skipped() {
    return switch (settings.skip()) {
      case TO_FIRST -> path.first(settings.skipVariable());
      case TO_LAST -> path.last(settings.skipVariable());
      default -> path.length();
    };
  }

  /** Continues a search. On MATCH the path has the rows of the match, on WAITS the rows so far. */
  private Outcome search(TimedRow search) {
    MatchRows rows = state.rows;
    path.begin(rows, search.ts(), search.payload(), isAlone ? state.chunks : null);
    failed = null;
    long end = settings.isLimited() ? rows.time(search.ts()) + settings.withinMicros() : Long.MAX_VALUE;
    int choice = 0;
    while (true) {
      int[] steps = settings.steps()[path.state()];
      boolean isTaken = false;
      for (; !isTaken && choice < steps.length / 2; choice++) {
        if (steps[2 * choice] == MatchSettings.ACCEPT) {
          return Outcome.MATCH;
        }
        if (path.next() < rows.end()) {
          isTaken = take(rows.get(path.next()), choice, end);
        } else if (time < end) {
          return Outcome.WAITS;
        }
      }
      if (isTaken) {
        choice = 0;
      } else if (path.length() == 0) {
        return Outcome.NONE;
      } else {
        remember();
        choice = path.pop() + 1;
      }
    }
  }

  /** Takes the row if it fits the step and the step leads to a state from which this search has not failed. */
  private boolean take(MatchRow row, int choice, long end) {
    int[] steps = settings.steps()[path.state()];
    if (row.ts >= end || hasFailed(steps[2 * choice + 1], path.length() + 1)) {
      return false;
    }
    MatchSettings.Test test = settings.tests().get(steps[2 * choice]);
    if (test.field() >= 0 && !row.fields(fields).getBoolean(test.field())) {
      return false;
    }
    path.push(choice);
    if (test.condition() < 0 || holds(test)) {
      return true;
    }
    path.pop();
    return false;
  }

  private boolean holds(MatchSettings.Test test) {
    for (int need : test.needs()) {
      tested.update(need, path.value(need));
    }
    return conditions.holds(test.condition(), path.fields(), tested);
  }

  /**
   * Remembers that no path leads from here to a match. Valid for all paths to here only if tests use their row alone.
   */
  private void remember() {
    if (isPlain) {
      failed = failed == null ? new BitSet[settings.steps().length] : failed;
      BitSet places = failed[path.state()] == null ? new BitSet() : failed[path.state()];
      places.set(path.length());
      failed[path.state()] = places;
    }
  }

  private boolean hasFailed(int state, int length) {
    return failed != null && failed[state] != null && failed[state].get(length);
  }
}
