package dsdagster.kafka.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The stream of a {@link SkippingSource}. When a batch is planned, its offsets before the log's start are counted.
 * Records that are deleted between the planning and the reading of the batch are skipped without being counted.
 */
final class SkippingStream extends RecordStream {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int RANGES_TOLD = 20;
  private final LogStarts starts;
  private final Map<TopicPartition, Long> counted = new HashMap<>();
  private final Deque<String> ranges = new ArrayDeque<>();
  private long lost;

  SkippingStream(MicroBatchStream inner, CaseInsensitiveStringMap options) {
    super(inner, options);
    starts = new LogStarts(options);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    Map<TopicPartition, Long> from = positions(start);
    Map<TopicPartition, Long> until = positions(end);
    starts.of(from.keySet()).forEach((partition, first) -> {
      long begin = Math.max(from.get(partition), counted.getOrDefault(partition, 0L));
      long gone = Math.min(first, until.getOrDefault(partition, 0L));
      if (gone > begin) {
        count(partition, begin, gone);
      }
    });
    return super.planInputPartitions(start, end);
  }

  /** Counts lost offsets once: a batch may be planned more than once, so counted offsets are remembered. */
  private synchronized void count(TopicPartition partition, long begin, long gone) {
    counted.put(partition, gone);
    lost += gone - begin;
    if (ranges.size() == RANGES_TOLD) {
      ranges.removeFirst();
    }
    ranges.addLast(partition.topic() + "/" + partition.partition() + " " + begin + "-" + (gone - 1));
  }

  private static Map<TopicPartition, Long> positions(Offset offset) {
    try {
      Map<TopicPartition, Long> found = new HashMap<>();
      for (Map.Entry<String, JsonNode> topic : JSON.readTree(offset.json()).properties()) {
        for (Map.Entry<String, JsonNode> partition : topic.getValue().properties()) {
          TopicPartition name = new TopicPartition(topic.getKey(), Integer.parseInt(partition.getKey()));
          found.put(name, partition.getValue().asLong());
        }
      }
      return found;
    } catch (com.fasterxml.jackson.core.JsonProcessingException broken) {
      throw new IllegalStateException("no offset of Kafka: " + offset.json(), broken);
    }
  }

  @Override
  public synchronized Map<String, String> metrics(Optional<Offset> latestConsumed) {
    Map<String, String> found = new HashMap<>(super.metrics(latestConsumed));
    found.put("lost_records", Long.toString(lost));
    found.put("lost", String.join(", ", ranges));
    return found;
  }

  @Override
  public void stop() {
    starts.close();
    super.stop();
  }
}
