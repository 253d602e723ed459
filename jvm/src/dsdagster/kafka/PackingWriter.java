package dsdagster.kafka;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * One task of one batch outside of the driver's process. It sends nothing to Kafka; its records go to the driver with
 * the message of its end. Spark uses one message per partition, so other attempts of the task have no effect.
 */
final class PackingWriter implements DataWriter<InternalRow> {
  private final RecordColumns columns;
  private final PackedRecords.Packing packing;
  private final long epoch;
  private final boolean skip;

  private PackingWriter(RecordColumns columns, long mostBytes, long epoch, boolean skip) {
    this.columns = columns;
    this.packing = new PackedRecords.Packing(columns.topic(), mostBytes);
    this.epoch = epoch;
    this.skip = skip;
  }

  @Override
  public void write(InternalRow row) {
    if (!skip) {
      packing.add(columns.record(row, null));
    }
  }

  @Override
  public WriterCommitMessage commit() {
    Faults.at("after-pack", epoch);
    return packing.packed();
  }

  @Override
  public void abort() {
    // The driver has no record of this task.
  }

  @Override
  public void close() {
    // Nothing is open.
  }

  /**
   * The settings that are sent to executors.
   *
   * @param written the last batch in the topic: a batch up to it is computed only for its state, or refused by the
   *     driver
   * @param mostBytes largest number of bytes of one batch
   */
  record Factory(RecordColumns columns, long written, long mostBytes) implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return new PackingWriter(columns, mostBytes, epoch, epoch <= written);
    }
  }
}
