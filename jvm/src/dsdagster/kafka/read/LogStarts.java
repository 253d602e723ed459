package dsdagster.kafka.read;

import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** First available offset of each partition; one small request per batch. */
final class LogStarts implements AutoCloseable {
  private static final String PREFIX = "kafka.";
  private static final long TIMEOUT_SECONDS = 30;
  private final Map<String, Object> client = new HashMap<>();
  private Admin admin;

  LogStarts(CaseInsensitiveStringMap options) {
    options.asCaseSensitiveMap().forEach((name, text) -> {
      String folded = name.toLowerCase(Locale.ROOT);
      if (folded.startsWith(PREFIX)) {
        client.put(folded.substring(PREFIX.length()), text);
      }
    });
  }

  /** First offsets by partition. Partitions that no longer exist are left out; the source itself reports them. */
  Map<TopicPartition, Long> of(Set<TopicPartition> partitions) {
    if (admin == null) {
      admin = Admin.create(client);
    }
    ListOffsetsResult answer =
        admin.listOffsets(partitions.stream().collect(Collectors.toMap(one -> one, one -> OffsetSpec.earliest())));
    Map<TopicPartition, Long> found = new HashMap<>();
    for (TopicPartition partition : partitions) {
      Long first = first(answer.partitionResult(partition));
      if (first != null) {
        found.put(partition, first);
      }
    }
    return found;
  }

  private static Long first(KafkaFuture<ListOffsetsResult.ListOffsetsResultInfo> answer) {
    try {
      return answer.get(TIMEOUT_SECONDS, TimeUnit.SECONDS).offset();
    } catch (ExecutionException failure) {
      if (failure.getCause() instanceof UnknownTopicOrPartitionException) {
        return null;
      }
      throw failure.getCause() instanceof KafkaException known ? known : new KafkaException(failure.getCause());
    } catch (TimeoutException late) {
      throw new org.apache.kafka.common.errors.TimeoutException("no answer about the start of the log", late);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new org.apache.kafka.common.errors.InterruptException(stopped);
    }
  }

  @Override
  public void close() {
    if (admin != null) {
      admin.close(Duration.ofSeconds(1));
    }
  }
}
