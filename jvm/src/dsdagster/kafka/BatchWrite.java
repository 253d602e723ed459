package dsdagster.kafka;

import dsdagster.OperatorFault;
import dsdagster.rowlog.RowLogs;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/**
 * One batch on the driver: rows are sent into the job's transaction, {@link #commit} commits it with the marker. Tasks
 * in the driver's process send their rows directly ({@link TaskWriter}). Tasks on a cluster write in transactions of
 * their own, which are committed after the marker that names them ({@link PreparingWriter}); or, if the setting says
 * so, they return their records to the driver ({@link PackingWriter}), which sends them when all tasks have ended,
 * partition after partition.
 */
final class BatchWrite implements StreamingWrite {
  static final String MEGABYTES = "spark.dsdagster.batchMegabytes";
  static final String WRITERS = "spark.dsdagster.kafkaWriters";
  private static final String DRIVER = "driver";
  private static final long MEGABYTES_UNLESS_SET = 64;
  private final SinkSettings settings;
  private long mostBytes;
  private JobTransaction transaction;

  BatchWrite(SinkSettings settings) {
    this.settings = settings;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    transaction = JobTransactions.of(settings);
    SparkContext context = SparkSession.active().sparkContext();
    if (context.isLocal()) {
      return new WriterFactory(settings, transaction.incarnation);
    }
    if (!context.conf().get(WRITERS, "").equals(DRIVER)) {
      return new PreparingWriter.Factory(transaction.taskRound(settings.columns));
    }
    mostBytes = context.conf().getLong(MEGABYTES, MEGABYTES_UNLESS_SET) << 20;
    return new PackingWriter.Factory(settings.columns, transaction.marker().batch(), mostBytes);
  }

  @Override
  public boolean useCommitCoordinator() {
    return true;
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    try {
      send(epoch, messages);
      RowLogs.flush(settings.rowLogJob, epoch);
      Faults.at("before-commit", epoch);
      transaction.commit(epoch, settings.replayEpoch, ends(messages));
      Faults.at("after-commit", epoch);
    } catch (RuntimeException failure) {
      JobTransactions.drop(transaction);
      throw failure;
    }
  }

  private static List<TaskEnd> ends(WriterCommitMessage[] messages) {
    return Arrays.stream(messages).filter(TaskEnd.class::isInstance).map(TaskEnd.class::cast).toList();
  }

  /** Sends the records that tasks of a cluster have packed; does nothing if tasks have sent them. */
  private void send(long epoch, WriterCommitMessage[] messages) {
    long bytes = 0;
    for (WriterCommitMessage message : messages) {
      bytes += message instanceof PackedRecords packed ? packed.bytes().length : 0;
    }
    if (bytes == 0 || transaction.isWritten(epoch, settings.replayEpoch)) {
      return;
    }
    if (bytes > mostBytes) {
      throw PackedRecords.tooLarge(settings.topic, mostBytes);
    }
    transaction.begin(epoch);
    for (WriterCommitMessage message : messages) {
      ((PackedRecords) message).unpack(transaction.beganMillis(), transaction::send);
      transaction.checkAlive();
    }
    Faults.at("after-send", epoch);
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
