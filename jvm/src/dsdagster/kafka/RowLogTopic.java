package dsdagster.kafka;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Writes the rows of a log as values of a topic: one transaction per batch with the batch's number as its marker, apart
 * from the transaction of the job's sink, so that either may be in another cluster.
 *
 * <p>Rule: only batches with rows open a transaction, so a marker that is behind the checkpoint or missing tells nothing. A
 * log whose marker was lost may hold the rows of one batch twice.
 */
public final class RowLogTopic {
  static final StructType COLUMNS = new StructType().add("value", DataTypes.BinaryType);

  private RowLogTopic() {}

  /** {@code options}: those of {@link SinkSettings}. */
  public static void write(Map<String, String> options, long epoch, List<byte[]> rows) {
    SinkSettings settings = SinkSettings.of(new CaseInsensitiveStringMap(options), COLUMNS);
    JobTransaction transaction = JobTransactions.of(settings);
    if (transaction.isWritten(epoch, settings.replayEpoch)) {
      return;
    }
    try {
      transaction.begin(epoch);
      for (byte[] row : rows) {
        transaction.send(new ProducerRecord<>(settings.topic, null, transaction.beganMillis(), null, row));
      }
      transaction.commit(epoch, settings.replayEpoch);
    } catch (RuntimeException failure) {
      JobTransactions.drop(transaction);
      throw failure;
    }
  }
}
