package dsdagster.kafka;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * One task of one batch, in the only attempt that may send: what an attempt has sent is in the job's transaction, so one
 * that fails after a row takes the transaction with it, and the batch is replayed as a whole instead of its task. Rows of a batch that is already committed are pulled and not written: operators below need
 * the pass to rebuild their state.
 */
final class TaskWriter implements DataWriter<InternalRow> {
  private static final long MICROS_PER_MILLI = 1000;
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
    transaction.send(record(row));
  }

  private ProducerRecord<byte[], byte[]> record(InternalRow row) {
    ProducerRecord<byte[], byte[]> made =
        new ProducerRecord<>(
            settings.topic, partition(row), timestamp(row), bytes(row, settings.key), bytes(row, settings.value));
    if (settings.headers >= 0 && !row.isNullAt(settings.headers)) {
      ArrayData pairs = row.getArray(settings.headers);
      for (int i = 0; i < pairs.numElements(); i++) {
        InternalRow pair = pairs.getStruct(i, 2);
        made.headers().add(new RecordHeader(pair.getUTF8String(0).toString(), bytes(pair, 1)));
      }
    }
    return made;
  }

  private static byte[] bytes(InternalRow row, int column) {
    return column < 0 || row.isNullAt(column) ? null : row.getBinary(column);
  }

  private Integer partition(InternalRow row) {
    return settings.partition < 0 || row.isNullAt(settings.partition) ? null : row.getInt(settings.partition);
  }

  /** One time for all rows of a batch, so that a reader that sees the commit of one partition first is not led ahead. */
  private Long timestamp(InternalRow row) {
    if (settings.timestamp < 0 || row.isNullAt(settings.timestamp)) {
      return transaction.beganMillis();
    }
    return Math.floorDiv(row.getLong(settings.timestamp), MICROS_PER_MILLI);
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
