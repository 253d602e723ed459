package dsdagster.time;

import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Ends of all partitions of the subscribed topics under {@code read_uncommitted}; one small request per call. */
final class KafkaLogEnds implements LogEnds {
  private static final String PREFIX = "kafka.";
  private static final long TIMEOUT_SECONDS = 10;
  private static final long REDISCOVER_NANOS = TimeUnit.MINUTES.toNanos(1);
  private final Map<String, Object> client = new HashMap<>();
  private final List<String> topics;
  private Admin admin;
  private Map<TopicPartition, OffsetSpec> question = Map.of();
  private long discovered;
  private Map<String, String> leaders = Map.of();
  private Map<TopicPartition, Integer> epochs = Map.of();

  KafkaLogEnds(CaseInsensitiveStringMap options) {
    options.asCaseSensitiveMap().forEach((name, text) -> {
      String folded = name.toLowerCase(Locale.ROOT);
      if (folded.startsWith(PREFIX)) {
        client.put(folded.substring(PREFIX.length()), text);
      }
    });
    topics = Arrays.stream(options.getOrDefault("subscribe", "").split(",")).map(String::trim).toList();
  }

  @Override
  public boolean isGuarding() {
    return true;
  }

  @Override
  public Map<String, String> ask() {
    try {
      discover();
      ListOffsetsOptions uncommitted = new ListOffsetsOptions(IsolationLevel.READ_UNCOMMITTED);
      Map<String, String> ends = new HashMap<>();
      Map<TopicPartition, Integer> answered = new HashMap<>();
      admin.listOffsets(question, uncommitted).all().get(TIMEOUT_SECONDS, TimeUnit.SECONDS)
          .forEach((partition, end) -> {
            ends.put(key(partition), Long.toString(end.offset()));
            answered.put(partition, end.leaderEpoch().orElse(-1));
          });
      if (answered.equals(epochs)) {
        return ends;
      }
      epochs = answered;
      discovered = 0; // a partition has a new leader: nothing is concluded before it is known
      return null;
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return null;
    } catch (ExecutionException | TimeoutException unknown) {
      return null;
    }
  }

  @Override
  public Map<String, String> leaders() {
    return leaders;
  }

  private String key(TopicPartition partition) {
    return topics.size() == 1 ? Integer.toString(partition.partition()) : partition.topic() + "/" + partition.partition();
  }

  private void discover() throws InterruptedException, ExecutionException, TimeoutException {
    if (discovered != 0 && System.nanoTime() - discovered < REDISCOVER_NANOS) {
      return;
    }
    if (admin == null) {
      admin = Admin.create(client);
    }
    Map<TopicPartition, OffsetSpec> found = new HashMap<>();
    Map<String, String> led = new HashMap<>();
    for (TopicDescription topic
        : admin.describeTopics(topics).allTopicNames().get(TIMEOUT_SECONDS, TimeUnit.SECONDS).values()) {
      topic.partitions().forEach(info -> {
        TopicPartition partition = new TopicPartition(topic.name(), info.partition());
        found.put(partition, OffsetSpec.latest());
        if (info.leader() != null) {
          led.put(key(partition), client.get("bootstrap.servers") + "#" + info.leader().id());
        }
      });
    }
    question = found;
    leaders = led;
    discovered = System.nanoTime();
  }

  @Override
  public void close() {
    if (admin != null) {
      admin.close(Duration.ofSeconds(1));
    }
  }
}
