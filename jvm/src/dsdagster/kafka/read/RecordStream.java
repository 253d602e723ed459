package dsdagster.kafka.read;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** The stream of a {@link RecordSource}: Spark's stream of Kafka, with {@link RecordReaders}. */
class RecordStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final MicroBatchStream inner;

  RecordStream(MicroBatchStream inner) {
    this.inner = inner;
  }

  @Override
  public Offset initialOffset() {
    return inner.initialOffset();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return inner.deserializeOffset(json);
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("asked with a start offset only");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return ((SupportsAdmissionControl) inner).latestOffset(start, limit);
  }

  @Override
  public Offset reportLatestOffset() {
    return ((SupportsAdmissionControl) inner).reportLatestOffset();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ((SupportsAdmissionControl) inner).getDefaultReadLimit();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ((SupportsTriggerAvailableNow) inner).prepareForTriggerAvailableNow();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return inner.planInputPartitions(start, end);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RecordReaders();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return ((ReportsSourceMetrics) inner).metrics(latestConsumed);
  }

  @Override
  public void commit(Offset end) {
    inner.commit(end);
  }

  @Override
  public void stop() {
    inner.stop();
  }

  @Override
  public String toString() {
    return inner.toString();
  }
}
