package dsdagster.kafka;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/** One batch of a query with several sinks: written like a batch of a stream, with the batch number from the query. */
final class EpochWrite implements org.apache.spark.sql.connector.write.BatchWrite {
  private final BatchWrite inner;
  private final long epoch;

  EpochWrite(SinkSettings settings, long epoch) {
    this.inner = new BatchWrite(settings);
    this.epoch = epoch;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new Numbered(inner.createStreamingWriterFactory(info), epoch);
  }

  @Override
  public boolean useCommitCoordinator() {
    return inner.useCommitCoordinator();
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    inner.commit(epoch, messages);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    inner.abort(epoch, messages);
  }

  private record Numbered(StreamingDataWriterFactory inner, long epoch) implements DataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task) {
      return inner.createWriter(partition, task, epoch);
    }
  }
}
