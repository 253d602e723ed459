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

/** Ends of all partitions of the subscribed topics under {@code read_uncommitted}: one small request per question. */
final class KafkaLogEnds implements LogEnds {
  private static final String PREFIX = "kafka.";
  private static final long TIMEOUT_SECONDS = 10;
  private static final long REDISCOVER_NANOS = TimeUnit.MINUTES.toNanos(1);
  private final Map<String, Object> client = new HashMap<>();
  private final List<String> topics;
  private Admin admin;
  private Map<TopicPartition, OffsetSpec> question = Map.of();
  private long discovered;

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
      admin.listOffsets(question, uncommitted).all().get(TIMEOUT_SECONDS, TimeUnit.SECONDS)
          .forEach((partition, end) -> ends.put(key(partition), Long.toString(end.offset())));
      return ends;
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return null;
    } catch (ExecutionException | TimeoutException unknown) {
      return null;
    }
  }

  private String key(TopicPartition partition) {
    return topics.size() == 1 ? Integer.toString(partition.partition()) : partition.topic() + "/" + partition.partition();
  }

  private void discover() throws InterruptedException, ExecutionException, TimeoutException {
    if (!question.isEmpty() && System.nanoTime() - discovered < REDISCOVER_NANOS) {
      return;
    }
    if (admin == null) {
      admin = Admin.create(client);
    }
    Map<TopicPartition, OffsetSpec> found = new HashMap<>();
    for (TopicDescription topic
        : admin.describeTopics(topics).allTopicNames().get(TIMEOUT_SECONDS, TimeUnit.SECONDS).values()) {
      topic.partitions().forEach(
          partition -> found.put(new TopicPartition(topic.name(), partition.partition()), OffsetSpec.latest()));
    }
    question = found;
    discovered = System.nanoTime();
  }

  @Override
  public void close() {
    if (admin != null) {
      admin.close(Duration.ofSeconds(1));
    }
  }
}
