package dsdagster.kafka;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * One task of one batch; only one attempt may send. The records of an attempt are in the job's transaction, so an
 * attempt that fails after a row makes the transaction fail, and the whole batch is replayed. If the batch is
 * committed already, its rows are read and not written: operators below need the rows to be read to rebuild their
 * state.
 */
final class TaskWriter implements DataWriter<InternalRow> {
  private final SinkSettings settings;
  private final JobTransaction transaction;
  private final long epoch;
  private final boolean skip;
  private boolean hasSent;

  TaskWriter(SinkSettings settings, JobTransaction transaction, long epoch) {
    this.settings = settings;
    this.transaction = transaction;
    this.epoch = epoch;
    this.skip = transaction.isWritten(epoch, settings.replayEpoch);
  }

  @Override
  public void write(InternalRow row) {
    if (skip) {
      return;
    }
    transaction.checkAlive();
    transaction.begin(epoch);
    hasSent = true;
    // All rows of a batch have one time: a reader may see one partition's commit before another one.
    transaction.send(settings.columns.record(row, transaction.beganMillis()));
  }

  @Override
  public WriterCommitMessage commit() {
    if (!skip) {
      Faults.at("after-send", epoch);
      transaction.checkAlive();
    }
    return Sent.ALL;
  }

  @Override
  public void abort() {
    if (hasSent) {
      JobTransactions.drop(transaction);
    }
  }

  @Override
  public void close() {
    // The producer belongs to the job.
  }

  private enum Sent implements WriterCommitMessage {
    ALL
  }
}
