package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkContext;

/**
 * Time of one input: the minimum of its active partitions' known times, minus the lateness bound.
 *
 * <p>Rules: the {@code broker} time of a partition is known up to its newest row and, once it was read to its end, up
 * to the look that found the end, by the clock of the broker that leads the partition ({@link BrokerSkew}). {@code
 * record} time (a producer's or a column's) is known only up to the newest row, and a partition that stays empty for
 * the idle timeout after a look that found its end is left out. A partition with unread rows and without a read row
 * holds time back. With a frozen end ({@code availableNow}) only rows count, and a partition that was read to its end
 * is left out.
 */
final class InputClock {
  /** The time is not known yet and may not move. */
  static final long HELD = Long.MIN_VALUE;
  /** No partition is active: the other inputs decide. */
  static final long IDLE = Long.MAX_VALUE;

  private final String name;
  private final boolean brokerTime;
  private final boolean looks;
  private final long bound;
  private final long idleTimeout;
  private final long leastBound;
  private final Map<String, BrokerSkew> brokers;
  private final Map<String, PartitionClock> partitions = new LinkedHashMap<>();
  private SeenTimes seenTimes;
  private long looked = PartitionClock.NONE;
  private Look last;
  private boolean lookFailed;
  private boolean restored;
  private long rowsUnknownUntil = PartitionClock.NONE;
  private long unreadUntil = PartitionClock.NONE;

  /** {@code brokers}: by leader, for all inputs of the job, which learn from each other's rows. */
  InputClock(String name, JsonNode config, Map<String, BrokerSkew> brokers) {
    this.name = name;
    this.brokers = brokers;
    this.brokerTime = "broker".equals(config.path("time").asText("record"));
    this.looks = config.path("looks").asBoolean(true);
    this.bound = config.path("bound_micros").asLong(brokerTime ? 500_000 : 10_000_000);
    this.leastBound = config.path("least_bound_micros").asLong(bound);
    this.idleTimeout = config.path("idle_micros").asLong(10_000_000);
  }

  /** The accumulator of {@link Seen}. It is referenced here, since Spark keeps only weak references. */
  synchronized SeenTimes seenTimes(SparkContext context) {
    if (seenTimes == null) {
      seenTimes = new SeenTimes();
      seenTimes.register(context, scala.Option.apply("seen " + name), false);
    }
    return seenTimes;
  }

  private PartitionClock partition(String key) {
    return partitions.computeIfAbsent(key, unused -> new PartitionClock());
  }

  /** Takes over the times that the tasks have seen. Returns whether any is newer. */
  boolean collect() {
    SeenTimes source;
    synchronized (this) {
      source = seenTimes;
    }
    if (source == null) {
      return false;
    }
    boolean moved = false;
    for (Map.Entry<String, long[]> entry : source.take().entrySet()) {
      PartitionClock partition = partition(entry.getKey());
      long newest = entry.getValue()[0];
      long oldest = entry.getValue()[1];
      moved |= newest > partition.newest;
      partition.raiseNewest(newest);
      if (oldest != SeenTimes.NONE && brokerTime && last != null && last.reports() == null) {
        skew(partition).rows(newest, oldest, last.found(), partition.emptyAt);
      }
    }
    return moved;
  }

  private BrokerSkew skew(PartitionClock partition) {
    String broker = partition.leader == null ? "of input " + name : partition.leader;
    return brokers.computeIfAbsent(broker, unused -> new BrokerSkew());
  }

  /** After a restart: restores the map of the last tick. Rows of later batches are unknown until the next look. */
  void restore(JsonNode seen) {
    seen.properties().forEach(entry -> partition(entry.getKey()).raiseNewest(entry.getValue().asLong()));
    restored = true;
  }

  /**
   * Processes a look. Returns the lowest time of the batch's rows: {@link #IDLE} without rows, {@link #HELD} if
   * unknown.
   */
  long look(Look look) {
    long leastTime = brokerTime ? claimed() : HELD;
    boolean hasRows = false;
    boolean areFirstRows = false;
    long wall = look.wall(); // claims live long: they reference these two, not the positions of all partitions
    long steady = look.steady();
    for (Map.Entry<String, String> entry : look.ends().entrySet()) {
      String key = entry.getKey();
      String start = look.starts().get(key);
      String batchEnd = look.batchEnds().get(key);
      boolean brings = batchEnd != null && !Positions.reached(start, batchEnd);
      hasRows |= brings;
      PartitionClock partition = partition(key);
      if (look.reports() == null) {
        partition.leader = look.leaders().getOrDefault(key, partition.leader);
        partition.look(start, batchEnd, entry.getValue(), look.steady());
        String stable = look.logEnds() == null ? entry.getValue() : look.logEnds().get(key);
        partition.openTransaction = look.logEnds() != null && stable != null
            && !Positions.reached(entry.getValue(), stable);
        BrokerSkew skew = skew(partition);
        partition.isBrokerUnknown = brings && !skew.isKnown();
        areFirstRows |= partition.isBrokerUnknown;
        if (stable != null && !look.incomplete()) {
          partition.mark(start, stable, look.steady());
          partition.promise(batchEnd, stable, () -> skew.claim(wall, steady, bound, leastBound));
        }
      } else {
        lookReported(partition, start, entry.getValue(), look.reports().path(key));
      }
    }
    partitions.keySet().removeIf(key -> !look.ends().containsKey(key) && !look.starts().containsKey(key));
    unreadUntil = hasRows && brokerTime ? look.wall() : PartitionClock.NONE;
    looked = look.wall();
    last = look;
    lookFailed = false;
    if (restored && brokerTime && rowsUnknownUntil == PartitionClock.NONE) {
      rowsUnknownUntil = look.wall();
    }
    return !hasRows ? IDLE : areFirstRows ? HELD : leastTime;
  }

  /** Time that the last look has claimed, if earlier batches have read up to there; else {@link #HELD}. */
  private long claimed() {
    long claimed = IDLE;
    for (PartitionClock partition : partitions.values()) {
      long told = partition.claimed();
      if (told == PartitionClock.NONE) {
        return HELD;
      }
      claimed = Math.min(claimed, told);
    }
    return claimed == IDLE ? HELD : claimed;
  }

  private void lookReported(PartitionClock partition, String start, String end, JsonNode report) {
    long until = report.has("complete_until") ? report.get("complete_until").asLong() * 1000 : PartitionClock.NONE;
    partition.lookReported(start, end, until);
    partition.closed = report.path("finished").asBoolean(false) && Positions.reached(start, end);
    if (until != PartitionClock.NONE) {
      BrokerSkew.Claim reported = new BrokerSkew.Claim(until, until - bound);
      partition.promise(end, end, () -> reported);
    }
  }

  void lookFailed() {
    lookFailed = true;
    partitions.values().forEach(PartitionClock::lookFailed);
  }

  /** The input's time, {@link #HELD} or {@link #IDLE}. */
  long time(boolean frozen) {
    if (partitions.isEmpty()) {
      return looks && looked != PartitionClock.NONE ? IDLE : HELD;
    }
    long time = IDLE;
    for (PartitionClock partition : partitions.values()) {
      if (isLeftOut(partition, frozen)) {
        continue;
      }
      long known = partition.newest == PartitionClock.NONE ? HELD : partition.newest - bound;
      if (brokerTime && !frozen && !partition.isBrokerUnknown) {
        known = Math.max(known, partition.completeTime());
      }
      if (known == HELD) {
        return HELD;
      }
      time = Math.min(time, known);
    }
    return time;
  }

  /** Time of an idle input: that of its most advanced partition; {@link #HELD} if it never had a row. */
  long idleTime() {
    long time = HELD;
    for (PartitionClock partition : partitions.values()) {
      if (partition.newest != PartitionClock.NONE) {
        time = Math.max(time, partition.newest - bound);
      }
    }
    return time;
  }

  private boolean isLeftOut(PartitionClock partition, boolean frozen) {
    if (partition.closed) {
      return true;
    }
    if (!looks) {
      return false;
    }
    return frozen ? !partition.unfinished : !brokerTime && partition.isIdle(idleTimeout);
  }

  /** Newest event time that may have been read, including the batch that is being planned. */
  long newest() {
    long newest = Math.max(rowsUnknownUntil, unreadUntil);
    for (PartitionClock partition : partitions.values()) {
      newest = Math.max(newest, partition.newest);
    }
    return newest;
  }

  /** The map for a tick's offset. */
  ObjectNode seen() {
    ObjectNode node = Json.object();
    partitions.forEach(
        (key, partition) -> {
          if (partition.newest != PartitionClock.NONE) {
            node.put(key, partition.newest);
          }
        });
    return node;
  }

  ObjectNode snapshot(boolean frozen, long wall) {
    ObjectNode node = Json.object();
    long time = time(frozen);
    long newest = newest();
    node.put("state", lookFailed ? "unreachable" : time == IDLE ? "idle" : time == HELD ? "waiting" : "active");
    put(node, "time_micros", time == IDLE ? HELD : time);
    put(node, "newest_micros", newest);
    put(node, "look_age_micros", looked == PartitionClock.NONE ? HELD : wall - looked);
    node.put("lag_records", partitions.values().stream().mapToLong(partition -> partition.backlog).sum());
    node.put("ahead_micros", last == null ? 0 : partitions.values().stream()
        .mapToLong(partition -> skew(partition).provenAhead(last.wall(), last.steady())).max().orElse(0));
    node.put("open_transaction", partitions.values().stream().anyMatch(partition -> partition.openTransaction));
    node.put("partitions", partitions.size());
    return node;
  }

  private static void put(ObjectNode node, String field, long value) {
    if (value == HELD) {
      node.putNull(field);
    } else {
      node.put(field, value);
    }
  }
}
