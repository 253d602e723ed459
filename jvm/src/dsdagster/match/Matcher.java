package dsdagster.match;

import dsdagster.Conditions;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Searches the rows of a key for matches, one key at a time.
 *
 * <p>A search goes depth first through the steps of the automaton in the order of preference, so the first way to the
 * end is the match the standard prefers. Where it needs a row that has not come, it stops and keeps only the way it is
 * on: all it has tried before has failed for good, and goes on from there. Hence neither batches nor restarts change
 * what is found.
 */
final class Matcher {
  private enum Outcome {
    MATCH,
    NONE,
    WAITS
  }

  private static final int NO_STEP = -1;

  private final MatchSettings settings;
  private final Conditions conditions;
  private final Path path;
  private final GenericInternalRow tested;
  private final boolean isPlain;
  private final Set<Long> failed = new HashSet<>();
  private int[] states = new int[17];
  private short[] choices = new short[16];
  private KeyState state;
  private long time;
  /** The searches that waited, where each row begins one; then the next row that begins one. */
  private TimedRows.Cursor open;
  private long fresh;
  /** The one search, where the next one begins after it. */
  private Search only;

  Matcher(MatchSettings settings, Conditions conditions, StructType row) {
    this.settings = settings;
    this.conditions = conditions;
    path = new Path(settings, row);
    tested = new GenericInternalRow(settings.values().size());
    isPlain = settings.isPlain();
  }

  /**
   * Begins with a key; {@link #next} then searches as far as the rows go.
   *
   * @param started number of the first row that no search has begun at before; only matters where matches overlap
   * @param time all rows before it are there
   */
  void begin(KeyState state, long started, long time) {
    this.state = state;
    this.time = time;
    fresh = started;
    open = state.searches.between(Long.MIN_VALUE, started - 1);
    if (settings.skip() != MatchSettings.Skip.TO_NEXT) {
      only = open.hasNext() ? Search.read(open.next()) : new Search(state.rows.first());
    }
  }

  /** Goes on to the next match, whose path is valid until the next call; null when no more is found. */
  Path next() {
    boolean isFound = settings.skip() == MatchSettings.Skip.TO_NEXT ? nextTogether() : nextAlone();
    if (!isFound) {
      state.trim();
    }
    return isFound ? path : null;
  }

  /** Every row begins a search, none depends on another. */
  private boolean nextTogether() {
    while (open.hasNext()) {
      TimedRow known = open.next();
      Search search = Search.read(known);
      Outcome outcome = search(search);
      if (outcome != Outcome.WAITS) {
        open.remove();
      } else if (!search.isWrittenAs(known)) {
        open.replace(search.written());
      }
      if (outcome == Outcome.MATCH) {
        return true;
      }
    }
    while (fresh < state.rows.end()) {
      Search search = new Search(fresh++);
      Outcome outcome = search(search);
      if (outcome == Outcome.MATCH) {
        return true;
      }
      if (outcome == Outcome.WAITS) {
        state.searches.add(search.written());
      }
    }
    return false;
  }

  /** Where the next search begins depends on what this one finds. */
  private boolean nextAlone() {
    while (only.start < state.rows.end()) {
      state.rows.forgetBefore(only.start);
      Outcome outcome = search(only);
      if (outcome == Outcome.WAITS) {
        waitFor(only);
        return false;
      }
      only = new Search(only.start + (outcome == Outcome.MATCH ? skipped() : 1));
      if (outcome == Outcome.MATCH) {
        return true;
      }
    }
    state.searches.clear();
    return false;
  }

  private void waitFor(Search search) {
    TimedRow known = state.searches.first();
    if (known == null || !search.isWrittenAs(known)) {
      state.searches.clear();
      state.searches.add(search.written());
    }
  }

  /** How many rows of the match are passed over; never none, patterns that could are refused. */
  private int skipped() {
    return switch (settings.skip()) {
      case TO_FIRST -> path.first(settings.skipVariable());
      case TO_LAST -> path.last(settings.skipVariable());
      default -> path.length();
    };
  }

  /** Goes on with a search; on MATCH the path holds its rows, on WAITS the search the way it is on. */
  private Outcome search(Search search) {
    MatchRows rows = state.rows;
    resume(search);
    long end = settings.isLimited() ? rows.get(search.start).ts + settings.withinMicros() : Long.MAX_VALUE;
    int choice = 0;
    while (true) {
      int[] steps = settings.steps()[states[path.length()]];
      int step = NO_STEP;
      for (; choice < steps.length / 2; choice++) {
        int variable = steps[2 * choice];
        if (variable == MatchSettings.ACCEPT) {
          return Outcome.MATCH;
        }
        if (path.next() >= rows.end()) {
          if (time < end) {
            search.choices = Arrays.copyOf(choices, path.length());
            return Outcome.WAITS;
          }
        } else if (fits(rows.get(path.next()), variable, steps[2 * choice + 1], end)) {
          step = choice;
          break;
        }
      }
      if (step != NO_STEP) {
        took(step, steps[2 * step + 1]);
        choice = 0;
      } else if (path.length() == 0) {
        return Outcome.NONE;
      } else {
        remember();
        path.pop();
        choice = choices[path.length()] + 1;
      }
    }
  }

  private void resume(Search search) {
    path.begin(state.rows, search.start);
    failed.clear();
    states[0] = 0;
    for (short choice : search.choices) {
      int[] steps = settings.steps()[states[path.length()]];
      path.push(steps[2 * choice]);
      took(choice, steps[2 * choice + 1]);
    }
  }

  /** Notes the step that the last row of the path was taken by. */
  private void took(int choice, int state) {
    int taken = path.length() - 1;
    if (taken == choices.length) {
      choices = Arrays.copyOf(choices, 2 * taken);
      states = Arrays.copyOf(states, 2 * taken + 1);
    }
    choices[taken] = (short) choice;
    states[taken + 1] = state;
  }

  /** Takes the row if it is one of the variable; leads to a state from which this search has not failed. */
  private boolean fits(MatchRow row, int variable, int to, long end) {
    if (row.ts >= end || !failed.isEmpty() && failed.contains(place(to, path.length() + 1))) {
      return false;
    }
    MatchSettings.Test test = settings.tests().get(variable);
    path.push(variable);
    if (holds(test)) {
      return true;
    }
    path.pop();
    return false;
  }

  private boolean holds(MatchSettings.Test test) {
    int position = path.length() - 1;
    if (test.field() >= 0) {
      return path.fields(position).getBoolean(test.field());
    }
    if (test.condition() < 0) {
      return true;
    }
    for (int need : test.needs()) {
      tested.update(need, path.value(need));
    }
    return conditions.holds(test.condition(), path.fields(position), tested);
  }

  /** No way leads from here to the end. Only where tests look at their row alone that holds however one came here. */
  private void remember() {
    if (isPlain) {
      failed.add(place(states[path.length()], path.length()));
    }
  }

  private static long place(int state, int position) {
    return (long) state << Integer.SIZE | position;
  }
}
