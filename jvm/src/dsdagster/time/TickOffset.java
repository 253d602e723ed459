package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * A tick and what had been read when it was decided: {@code {"tick": micros, "seen": {input: {partition: micros}}}}.
 *
 * <p>Rules: equal if the tick is equal; the text of a stored offset is kept as it is, because Spark compares texts.
 */
final class TickOffset extends Offset {
  static final TickOffset INITIAL = new TickOffset(InputClock.HELD, Json.object());
  private final long tick;
  private final JsonNode seen;
  private final String text;

  TickOffset(long tick, JsonNode seen) {
    this(tick, seen, text(tick, seen));
  }

  private TickOffset(long tick, JsonNode seen, String text) {
    this.tick = tick;
    this.seen = seen;
    this.text = text;
  }

  private static String text(long tick, JsonNode seen) {
    ObjectNode node = Json.object();
    node.put("tick", tick);
    node.set("seen", seen);
    return Json.write(node);
  }

  static TickOffset parse(String json) {
    JsonNode node = Json.read(json);
    return new TickOffset(node.path("tick").asLong(), node.path("seen"), json);
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
    return other instanceof TickOffset ? ((TickOffset) other).tick == tick : super.equals(other);
  }

  @Override
  public int hashCode() {
    return Long.hashCode(tick);
  }
}
