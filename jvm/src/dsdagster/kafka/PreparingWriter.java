package dsdagster.kafka;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * One attempt of a task outside of the driver's process. It sends its rows in a transaction of its own and leaves it
 * open; the driver commits it with the others of the batch. An attempt without rows has no transaction.
 */
final class PreparingWriter implements DataWriter<InternalRow> {
  private final TaskRound settings;
  private final long epoch;
  private Slot slot;

  private PreparingWriter(TaskRound settings, long epoch) {
    this.settings = settings;
    this.epoch = epoch;
  }

  @Override
  public void write(InternalRow row) {
    if (epoch <= settings.written()) {
      return;
    }
    if (slot == null) {
      slot = Slots.lease(settings);
    }
    slot.send(settings.columns().record(row, settings.millis()));
  }

  @Override
  public WriterCommitMessage commit() {
    TaskContext task = TaskContext.get();
    boolean isRepeated = task.attemptNumber() > 0 || task.stageAttemptNumber() > 0;
    if (slot == null) {
      return new TaskEnd(null, isRepeated);
    }
    Prepared prepared = slot.prepare(settings.round());
    Faults.at("after-prepare", epoch);
    Slots.rest(settings, slot);
    slot = null;
    return new TaskEnd(prepared, isRepeated);
  }

  @Override
  public void abort() {
    if (slot != null) {
      Slots.discard(settings, slot);
      slot = null;
    }
  }

  @Override
  public void close() {
    // The slot waits for the next batch.
  }

  /** The settings that are sent to executors. */
  record Factory(TaskRound settings) implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return new PreparingWriter(settings, epoch);
    }
  }
}
