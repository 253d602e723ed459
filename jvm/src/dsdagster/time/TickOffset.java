package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * A tick and what had been read when it was decided: {@code {"tick": micros, "seen": {input: {partition: micros}}}}, and
 * {@code "echo": true} where it says the same time again.
 *
 * <p>Rules: equal if tick and echo are equal; the text of a stored offset is kept as it is, because Spark compares texts.
 */
final class TickOffset extends Offset {
  static final TickOffset INITIAL = new TickOffset(InputClock.HELD, Json.object());
  private final long tick;
  private final boolean echo;
  private final JsonNode seen;
  private final String text;

  TickOffset(long tick, JsonNode seen) {
    this(tick, false, seen, text(tick, false, seen));
  }

  private TickOffset(long tick, boolean echo, JsonNode seen, String text) {
    this.tick = tick;
    this.echo = echo;
    this.seen = seen;
    this.text = text;
  }

  private static String text(long tick, boolean echo, JsonNode seen) {
    ObjectNode node = Json.object();
    node.put("tick", tick);
    if (echo) {
      node.put("echo", true);
    }
    node.set("seen", seen);
    return Json.write(node);
  }

  /** The same time once more. */
  TickOffset echoed() {
    return new TickOffset(tick, true, seen, text(tick, true, seen));
  }

  boolean isEcho() {
    return echo;
  }

  static TickOffset parse(String json) {
    JsonNode node = Json.read(json);
    return new TickOffset(node.path("tick").asLong(), node.path("echo").asBoolean(), node.path("seen"), json);
  }

  long tick() {
    return tick;
  }

  JsonNode seen() {
    return seen;
  }

  boolean isInitial() {
    return tick == InputClock.HELD;
  }

  @Override
  public String json() {
    return text;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof TickOffset offset ? offset.tick == tick && offset.echo == echo : super.equals(other);
  }

  @Override
  public int hashCode() {
    return Long.hashCode(tick);
  }
}
