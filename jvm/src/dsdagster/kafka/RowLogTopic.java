package dsdagster.kafka;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Writes the rows of a log as values of a topic, in one transaction per batch with the batch's number as its marker.
 * The transaction is separate from that of the job's sink, so that sink and log may be in different clusters.
 *
 * <p>Rule: only batches with rows open a transaction, so a missing marker, or one older than the checkpoint, is not an
 * error. A log whose marker was lost may have the rows of one batch twice.
 */
public final class RowLogTopic {
  static final StructType COLUMNS = new StructType().add("value", DataTypes.BinaryType);

  private RowLogTopic() {}

  /** Writes the rows of a batch; {@code options}: options of {@link SinkSettings}. */
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
      transaction.commit(epoch, settings.replayEpoch, List.of());
    } catch (RuntimeException failure) {
      JobTransactions.drop(transaction);
      throw failure;
    }
  }
}
