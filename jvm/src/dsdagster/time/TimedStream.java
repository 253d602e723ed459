package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** The stream of a {@link TimedSource}; reports every look to the clock, successful or not. */
class TimedStream extends WrappedStream {
  private static final String COMPLETE_UNTIL = "complete_until";
  private final JobClock clock;
  private final String input;
  private final LogEnds guard;
  private Offset frozen;
  private boolean hadRows;

  TimedStream(MicroBatchStream inner, JobClock clock, String input, LogEnds guard) {
    super(inner);
    this.clock = clock;
    this.input = input;
    this.guard = guard;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    boolean answered = false;
    try {
      long wall = Clocks.now().wall();
      long steady = Clocks.now().steady();
      boolean asks = guard.isGuarding() && (hadRows || guard.leaders().isEmpty() || clock.isPending());
      Map<String, String> logEnds = asks ? guard.ask() : null;
      Offset end = innerLatest(start, limit);
      hadRows = end != null && (start == null || !end.json().equals(start.json()));
      if (end != null) {
        clock.look(input, seen(wall, steady, start, end, logEnds));
      }
      answered = true;
      return end;
    } finally {
      if (!answered) {
        clock.lookFailed(input);
      }
    }
  }

  private Look seen(long wall, long steady, Offset start, Offset end, Map<String, String> logEnds) {
    long found = Clocks.now().steady();
    Map<String, String> starts = start == null ? Map.of() : Positions.of(start.json());
    Map<String, String> batchEnds = Positions.of(end.json());
    boolean incomplete = guard.isGuarding() && logEnds == null;
    Map<String, String> leaders = guard.leaders();
    Offset latest = frozen == null ? reportLatestOffset() : null;
    if (latest != null) {
      JsonNode reports = Json.read(latest.json());
      if (isReport(reports)) {
        return new Look(wall, steady, found, starts, batchEnds, batchEnds, null, leaders, reports, false);
      }
      Map<String, String> ends = Positions.of(latest.json());
      return new Look(wall, steady, found, starts, batchEnds, ends, logEnds, leaders, null, incomplete);
    }
    return new Look(wall, steady, found, starts, batchEnds, batchEnds, logEnds, leaders, null, incomplete);
  }

  private static boolean isReport(JsonNode node) {
    if (!node.isObject()) {
      return false;
    }
    for (JsonNode partition : node) {
      if (!partition.isObject() || !(partition.has(COMPLETE_UNTIL) || partition.has("millis_behind")
          || partition.has("finished") || partition.isEmpty())) {
        return false;
      }
    }
    return true;
  }

  private Offset innerLatest(Offset start, ReadLimit limit) {
    return frozen != null ? frozen : super.latestOffset(start, limit);
  }

  /** For a source that cannot freeze its end itself: its present end is kept and read in one batch. */
  @Override
  public void prepareForTriggerAvailableNow() {
    clock.freeze();
    if (inner instanceof SupportsTriggerAvailableNow) {
      ((SupportsTriggerAvailableNow) inner).prepareForTriggerAvailableNow();
    } else {
      frozen = admission == null
          ? inner.latestOffset()
          : admission.latestOffset(inner.initialOffset(), ReadLimit.allAvailable());
    }
  }

  @Override
  public void stop() {
    guard.close();
    inner.stop();
  }

  /** For sources that receive the last offset after a restart. */
  static final class WithLatestSeen extends TimedStream implements AcceptsLatestSeenOffset {
    WithLatestSeen(MicroBatchStream inner, JobClock clock, String input, LogEnds guard) {
      super(inner, clock, input, guard);
    }

    @Override
    public void setLatestSeenOffset(Offset offset) {
      ((AcceptsLatestSeenOffset) inner).setLatestSeenOffset(offset);
    }
  }
}
