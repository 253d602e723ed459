package dsdagster.kafka;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * One task of one batch, in the only attempt that may send: what an attempt has sent is in the job's transaction, so one
 * that fails after a row takes the transaction with it, and the batch is replayed as a whole instead of its task. Rows of a batch that is already committed are pulled and not written: operators below need
 * the pass to rebuild their state.
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
    // One time for all rows of a batch, so that a reader that sees the commit of one partition first is not led ahead.
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
