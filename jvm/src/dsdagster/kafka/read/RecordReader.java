package dsdagster.kafka.read;

import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;

/**
 * The records of one partition within one batch, as rows with the columns of Spark's Kafka source.
 *
 * <p>Spark's reader copies each record into an unsafe row, and the next step copies what it uses again. This one row has
 * the arrays of the record itself; it is valid until the next record, as Spark's is. Rows with headers are Spark's.
 */
final class RecordReader implements PartitionReader<InternalRow> {
  private static final int COLUMNS = 7;
  private final KafkaOffsetRange range;
  private final long timeoutMillis;
  private final boolean failsOnLoss;
  private final KafkaDataConsumer consumer;
  private final Function1<ConsumerRecord<byte[], byte[]>, InternalRow> withHeaders;
  private final GenericInternalRow fields = new GenericInternalRow(COLUMNS);
  private InternalRow row;
  private long next;
  private long records;
  private long bytes;

  RecordReader(KafkaBatchInputPartition partition) {
    range = partition.offsetRange();
    timeoutMillis = partition.pollTimeoutMs();
    failsOnLoss = partition.failOnDataLoss();
    withHeaders = partition.includeHeaders() ? new KafkaRecordToRowConverter().toInternalRowWithHeaders() : null;
    next = range.fromOffset();
    fields.update(2, UTF8String.fromString(range.topicPartition().topic()));
    fields.setInt(3, range.topicPartition().partition());
    consumer = RecordConsumers.acquire(range.topicPartition(), partition.executorKafkaParams());
  }

  @Override
  public boolean next() {
    if (next >= range.untilOffset()) {
      return false;
    }
    ConsumerRecord<byte[], byte[]> record = consumer.get(next, range.untilOffset(), timeoutMillis, failsOnLoss);
    if (record == null) {
      return false;
    }
    row = withHeaders == null ? plain(record) : withHeaders.apply(record);
    next = record.offset() + 1;
    records++;
    bytes += Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
    return true;
  }

  private InternalRow plain(ConsumerRecord<byte[], byte[]> record) {
    fields.update(0, record.key());
    fields.update(1, record.value());
    fields.setLong(4, record.offset());
    fields.setLong(5, TimeUnit.MILLISECONDS.toMicros(record.timestamp()));
    fields.setInt(6, record.timestampType().id);
    return fields;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return new CustomTaskMetric[] {
      new Count("offsetOutOfRange", consumer.getNumOffsetOutOfRange()), new Count("dataLoss", consumer.getNumDataLoss())
    };
  }

  @Override
  public void close() {
    RecordSizes.add(range.topic(), records, bytes);
    consumer.release();
  }

  private record Count(String name, long value) implements CustomTaskMetric {}
}
