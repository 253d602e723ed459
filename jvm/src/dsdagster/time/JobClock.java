package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dsdagster.OperatorFault;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;

/**
 * Event time of one run of one job: decides when a tick is emitted, and its time.
 *
 * <p>Rules: query time is the minimum over the active inputs; it never goes back, and does not move while an input is
 * held. When all inputs are idle it is the time of the most advanced one, so that it does not matter which became idle
 * first. Ticks are emitted only while something is pending (time is not past the newest row plus the span), not before
 * they can release the oldest pending row, at least a step apart, the last one exactly; in long silence there is one
 * per fiftieth of the silence. With a grid they are emitted only when time crosses a multiple of it. All tick sources
 * of a job report the same time, so an idle input follows the others. With a frozen end nothing waits. A tick in an
 * offset of an earlier version is repeated once after a restart: it was not the watermark of its own batch. All
 * methods are thread-safe.
 */
final class JobClock {
  private static final long STEP_MICROS = 50_000;
  private static final long SILENCE_SHARE = 50;
  private static final long MILLI = 1000;
  private static final long CLOSING_MICROS = 2 * MILLI;

  private final String job;
  private final boolean manual;
  private final long step;
  private final long span;
  private final long soonest;
  private final long grid;
  private final Map<String, InputClock> inputs = new LinkedHashMap<>();
  private final Map<String, BrokerSkew> brokers = new HashMap<>();
  private final Map<String, LongAccumulator> counters = new LinkedHashMap<>();
  private volatile boolean frozen;
  private boolean restored;
  private long published = InputClock.HELD;
  private long passed = InputClock.HELD;
  private long advanced = InputClock.HELD;
  private long tickedAt;
  private long movedAt;
  private boolean ticked;
  /** Time of the oldest waiting row; {@link InputClock#HELD}: unknown, {@link InputClock#IDLE}: no row waits. */
  private long waitingFrom = InputClock.IDLE;

  JobClock(String job, JsonNode config) {
    this.job = job;
    this.manual = "manual".equals(config.path("mode").asText("auto"));
    this.step = config.path("step_micros").asLong(STEP_MICROS);
    this.span = config.path("span_micros").asLong(0);
    this.soonest = config.path("soonest_micros").asLong(span);
    this.grid = config.path("grid_micros").asLong(0);
    config.path("inputs").properties()
        .forEach(entry -> inputs.put(entry.getKey(), new InputClock(entry.getKey(), entry.getValue(), brokers)));
  }

  InputClock input(String name) {
    InputClock found = inputs.get(name);
    if (found == null) {
      throw new OperatorFault("CLOCK_NOT_REGISTERED", "job " + job + " has no input " + name + ", only " + inputs.keySet());
    }
    return found;
  }

  /** Freezes the end of all inputs, for {@code availableNow}. */
  void freeze() {
    frozen = true;
  }

  synchronized void look(String input, Look look) {
    collect(); // rows of the batches before this look
    waitingFrom = Math.min(waitingFrom, input(input).look(look));
  }

  synchronized void lookFailed(String input) {
    input(input).lookFailed();
  }

  /** Moves time forward by hand. */
  synchronized void advance(long micros) {
    advanced = Math.max(advanced, micros);
  }

  /** Whether any row waits for time to pass. */
  synchronized boolean isPending() {
    collect();
    return published < limit();
  }

  private void collect() {
    boolean moved = false;
    for (InputClock input : inputs.values()) {
      moved |= input.collect();
    }
    if (moved) {
      movedAt = Clocks.now().steady();
    }
  }

  /** The next tick after {@code start}; {@code start} itself if time does not move. */
  synchronized TickOffset next(TickOffset start) {
    restore(start);
    begin(start);
    collect();
    if (start.tick() < published) {
      return tickAt(published);
    }
    long next = candidate();
    if (next <= published) {
      return start.isInitial() ? start : start.inItsBatch();
    }
    published = next;
    waitingFrom = published < limit() ? waitingFrom : InputClock.IDLE;
    tickedAt = Clocks.now().steady();
    ticked = true;
    return tickAt(next);
  }

  /** Called when a batch that begins at {@code start} is planned or replayed. */
  synchronized void begin(TickOffset start) {
    passed = Math.max(passed, start.tick());
  }

  /** The newest tick of the batches before the running one. */
  synchronized long passed() {
    return passed;
  }

  private void restore(TickOffset start) {
    if (restored) {
      return;
    }
    restored = true;
    if (start.isInitial()) {
      return;
    }
    published = start.tick();
    movedAt = Clocks.now().steady();
    inputs.forEach((name, input) -> input.restore(start.seen().path(name)));
  }

  private long candidate() {
    long byHand = wholeMillis(advanced);
    if (manual) {
      return byHand;
    }
    long limit = limit();
    long time = Math.min(queryTime(), limit);
    if (time == InputClock.HELD || time == InputClock.IDLE || isTooSoon(time, limit)) {
      return byHand;
    }
    return Math.max(byHand, grid > 0 ? Math.floorDiv(time, grid) * grid : wholeMillis(time));
  }

  private boolean isTooSoon(long time, long limit) {
    if (frozen || !ticked || time == limit) {
      return false;
    }
    if (grid > 0 && Math.floorDiv(time, grid) > Math.floorDiv(published, grid)) {
      return false;
    }
    if (waitingFrom != InputClock.IDLE && waitingFrom != InputClock.HELD && time < waitingFrom + soonest) {
      return true;
    }
    long now = Clocks.now().steady();
    return now - tickedAt < Math.max(step, (now - movedAt) / SILENCE_SHARE);
  }

  /** Rounds down to whole milliseconds, as Spark's watermark. */
  private static long wholeMillis(long micros) {
    return micros == InputClock.HELD ? micros : Math.floorDiv(micros, MILLI) * MILLI;
  }

  private long queryTime() {
    long time = InputClock.IDLE;
    for (InputClock input : inputs.values()) {
      time = Math.min(time, input.time(frozen));
    }
    return time == InputClock.IDLE ? allIdleTime() : time;
  }

  /** Time if all inputs are idle: as if they had become idle one after the other, the slowest first. */
  private long allIdleTime() {
    long time = InputClock.HELD;
    if (!frozen) {
      for (InputClock input : inputs.values()) {
        time = Math.max(time, input.idleTime());
      }
    }
    return time;
  }

  /** Time at which no row that has been read can be pending any more. */
  private long limit() {
    long newest = InputClock.HELD;
    for (InputClock input : inputs.values()) {
      newest = Math.max(newest, input.newest());
    }
    if (newest == InputClock.HELD) {
      return InputClock.HELD;
    }
    return grid > 0 ? Math.floorDiv(newest, grid) * grid + Math.max(span, grid)
        : wholeMillis(newest) + span + CLOSING_MICROS;
  }

  private TickOffset tickAt(long tick) {
    ObjectNode seen = Json.object();
    inputs.forEach((name, input) -> seen.set(name, input.seen()));
    return new TickOffset(tick, seen);
  }

  /** An operator's counter of a name, shown in the snapshot. */
  synchronized LongAccumulator counter(SparkContext context, String name) {
    return counters.computeIfAbsent(name, unused -> context.longAccumulator(job + " " + name));
  }

  synchronized ObjectNode snapshot() {
    collect();
    ObjectNode node = Json.object();
    long wall = Clocks.now().wall();
    if (published == InputClock.HELD) {
      node.putNull("time_micros");
    } else {
      node.put("time_micros", published);
    }
    node.put("pending", published < limit());
    ObjectNode shown = node.putObject("inputs");
    inputs.forEach((name, input) -> shown.set(name, input.snapshot(frozen, wall)));
    ObjectNode late = node.putObject("late");
    counters.forEach((name, counter) -> late.put(name, counter.value()));
    return node;
  }
}
