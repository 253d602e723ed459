package dsdagster.kafka;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * One task of one batch in another process than the driver: it sends nothing, its records travel to the driver with the
 * message that it has ended. Spark takes one message of every partition, so whatever other attempts of the task did
 * leaves no trace.
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
    // The driver has nothing of it.
  }

  @Override
  public void close() {
    // Nothing is open.
  }

  /**
   * What travels to executors.
   *
   * @param written the last batch in the topic: a batch up to it is computed for its state alone, or refused by the driver
   * @param mostBytes of one batch
   */
  record Factory(RecordColumns columns, long written, long mostBytes) implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return new PackingWriter(columns, mostBytes, epoch, epoch <= written);
    }
  }
}
