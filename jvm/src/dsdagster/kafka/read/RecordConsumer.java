package dsdagster.kafka.read;

import dsdagster.OperatorFault;
import dsdagster.PrivateField;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumer;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer.AvailableOffsetRange;
import scala.Tuple3;

/**
 * Spark's consumer of one partition, which asks for the start and the end of the log only if records may be missing.
 *
 * <p>Spark asks after each poll. The two requests wait behind the fetch that the client sends ahead, up to {@code
 * fetch.max.wait.ms}, and the records of that fetch are thrown away. In small batches they took 30 % of the time of a
 * task.
 *
 * <p>Rule: a broker answers a fetch below the start of the log with an error ({@code OFFSET_OUT_OF_RANGE}), never with
 * later records. So nothing is missing if the first record has the asked offset, or if the position moved on.
 */
final class RecordConsumer extends InternalKafkaConsumer {
  private static final long WAIT_MILLIS = 10_000;
  private final KafkaConsumer<byte[], byte[]> client;

  RecordConsumer(TopicPartition partition, Map<String, Object> settings) {
    super(partition, settings);
    client = client(this);
  }

  /** Spark's {@code fetch}: records, offset after them, known range of the log. Spark's own says why nothing comes. */
  @Override
  public Tuple3<List<ConsumerRecord<byte[], byte[]>>, Object, AvailableOffsetRange> fetch(long offset, long timeout) {
    seek(offset);
    List<ConsumerRecord<byte[], byte[]>> records =
        client.poll(Duration.ofMillis(Math.min(timeout, WAIT_MILLIS))).records(topicPartition());
    long after = client.position(topicPartition());
    if (after == offset) {
      return super.fetch(offset, timeout);
    }
    boolean isGap = !records.isEmpty() && records.get(0).offset() > offset;
    return new Tuple3<>(records, after, isGap ? getAvailableOffsetRange() : new AvailableOffsetRange(offset, after));
  }

  @SuppressWarnings("unchecked")
  private static KafkaConsumer<byte[], byte[]> client(InternalKafkaConsumer consumer) {
    try {
      return (KafkaConsumer<byte[], byte[]>) PrivateField.of(InternalKafkaConsumer.class, "consumer").get(consumer);
    } catch (ReflectiveOperationException other) {
      throw new OperatorFault("KAFKA_CLIENT_UNKNOWN", "Spark's Kafka source is another than 4.2's", other);
    }
  }
}
