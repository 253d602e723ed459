package dsdagster.time;

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

/** The stream of a {@link WrappedSource}: delegates to the stream of the inner source. */
public abstract class WrappedStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  protected final MicroBatchStream inner;

  /** The inner stream; null if it has no read limits. */
  protected final SupportsAdmissionControl admission;

  protected WrappedStream(MicroBatchStream inner) {
    this.inner = inner;
    this.admission = inner instanceof SupportsAdmissionControl limited ? limited : null;
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
    return admission == null ? inner.latestOffset() : admission.latestOffset(start, limit);
  }

  @Override
  public Offset reportLatestOffset() {
    return admission == null ? null : admission.reportLatestOffset();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return admission == null ? ReadLimit.allAvailable() : admission.getDefaultReadLimit();
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
    return inner.createReaderFactory();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return inner instanceof ReportsSourceMetrics reporting ? reporting.metrics(latestConsumed) : Map.of();
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
