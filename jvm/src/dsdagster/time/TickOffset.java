package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * A tick and the newest times that had been read when it was decided: {@code {"tick": micros, "own": true, "seen":
 * {input: {partition: micros}}}}; {@code own}: it is the watermark of its own batch.
 *
 * <p>Rules: two are equal if tick and {@code own} are equal; the text of a stored offset is not changed, because Spark
 * compares texts. Earlier versions wrote ticks that were the watermark of the next batch, without {@code own}, and
 * wrote them twice if Spark ran no batch without data, the second time with {@code "echo": true}.
 */
final class TickOffset extends Offset {
  static final TickOffset INITIAL = new TickOffset(InputClock.HELD, Json.object());
  private final long tick;
  private final boolean own;
  private final JsonNode seen;
  private final String text;

  TickOffset(long tick, JsonNode seen) {
    this(tick, true, seen, text(tick, seen));
  }

  private TickOffset(long tick, boolean own, JsonNode seen, String text) {
    this.tick = tick;
    this.own = own;
    this.seen = seen;
    this.text = text;
  }

  private static String text(long tick, JsonNode seen) {
    ObjectNode node = Json.object();
    node.put("tick", tick);
    node.put("own", true);
    node.set("seen", seen);
    return Json.write(node);
  }

  /** The tick as the watermark of its own batch: this offset, or a new one if an earlier version wrote it. */
  TickOffset inItsBatch() {
    return own ? this : new TickOffset(tick, seen);
  }

  static TickOffset parse(String json) {
    JsonNode node = Json.read(json);
    boolean own = node.path("own").asBoolean() || node.path("echo").asBoolean();
    return new TickOffset(node.path("tick").asLong(), own, node.path("seen"), json);
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
    return other instanceof TickOffset offset ? offset.tick == tick && offset.own == own : super.equals(other);
  }

  @Override
  public int hashCode() {
    return Long.hashCode(tick);
  }
}
