package dsdagster.kafka;

import dsdagster.OperatorFault;
import dsdagster.rowlog.RowLogs;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** One batch on the driver: tasks send into the job's transaction, {@link #commit} commits it with the marker. */
final class BatchWrite implements StreamingWrite {
  private final SinkSettings settings;
  private JobTransaction transaction;

  BatchWrite(SinkSettings settings) {
    this.settings = settings;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    transaction = JobTransactions.of(settings);
    return new WriterFactory(settings, transaction.incarnation);
  }

  @Override
  public boolean useCommitCoordinator() {
    return true;
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    try {
      RowLogs.flush(settings.rowLogJob, epoch);
      Faults.at("before-commit", epoch);
      transaction.commit(epoch, settings.replayEpoch);
      Faults.at("after-commit", epoch);
    } catch (RuntimeException failure) {
      JobTransactions.drop(transaction);
      throw failure;
    }
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    if (transaction != null) {
      JobTransactions.drop(transaction);
    }
  }

  private record WriterFactory(SinkSettings settings, String incarnation) implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      JobTransaction transaction = JobTransactions.find(settings.transactionalId, incarnation);
      if (transaction == null) {
        throw new OperatorFault(
            "KAFKA_TRANSACTION_ZOMBIE",
            "this process holds no open transaction of " + settings.transactionalId + " for the batch");
      }
      return new TaskWriter(settings, transaction, epoch);
    }
  }
}
