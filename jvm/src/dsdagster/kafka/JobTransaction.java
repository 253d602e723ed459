package dsdagster.kafka;

import dsdagster.OperatorFault;
import dsdagster.checkpoint.BatchLog;
import dsdagster.checkpoint.EndOffsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidTxnTimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.SparkSession;

/**
 * The transactional producer of one job and the last batch it committed.
 *
 * <p>Rules: it is never used after its first failure (the outcome of a failed commit is unknown; only a new producer
 * and the marker can tell). Writers of an older owner are recognized by {@link #incarnation}. The marker is written
 * with every batch, even an empty one, so a marker older than the checkpoint means a lost batch.
 */
final class JobTransaction {
  private static final long NONE = -1;
  private static final int[] TIMEOUTS_MILLIS = {900_000, 300_000, 60_000};
  private static final int ADMIN_SECONDS = 30;
  private static final Map<String, Object> DEFAULTS =
      Map.of(
          "linger.ms", "5",
          "compression.type", "lz4",
          "batch.size", "262144",
          "delivery.timeout.ms", "60000",
          "retry.backoff.ms", "20");

  final SinkSettings settings;
  final String incarnation = UUID.randomUUID().toString();
  private final KafkaProducer<byte[], byte[]> producer;
  private volatile Marker done;
  private volatile long open = NONE;
  private volatile long began;
  private volatile boolean dead;
  private volatile Exception sendError;
  private final BatchLog log;

  JobTransaction(SinkSettings settings) {
    this.settings = settings;
    this.log = settings.checkpoint.isEmpty() ? null : BatchLog.of(SparkSession.active(), settings.checkpoint);
    this.producer = initialised(settings.transactionalId, settings.kafka);
    try {
      this.done = readMarker();
    } catch (RuntimeException failure) {
      producer.close(Duration.ZERO);
      throw failure;
    }
  }

  /** A producer after {@code initTransactions}: all other owners are fenced, their open transaction is aborted. */
  static KafkaProducer<byte[], byte[]> initialised(String transactionalId, Map<String, Object> kafka) {
    for (int timeout : TIMEOUTS_MILLIS) {
      HashMap<String, Object> options = new HashMap<>(DEFAULTS);
      options.put("transaction.timeout.ms", Integer.toString(timeout));
      options.putAll(kafka);
      options.put("transactional.id", transactionalId);
      options.put("enable.idempotence", "true");
      options.put("acks", "all");
      KafkaProducer<byte[], byte[]> made =
          new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
      try {
        made.initTransactions();
        return made;
      } catch (InvalidTxnTimeoutException longerThanTheBrokerAllows) {
        made.close(Duration.ZERO);
        if (kafka.containsKey("transaction.timeout.ms")) {
          throw longerThanTheBrokerAllows;
        }
      } catch (AuthorizationException refused) {
        made.close(Duration.ZERO);
        throw Failures.of("KAFKA_WRITE_FAILED", "transactional id " + transactionalId, refused);
      } catch (RuntimeException failure) {
        made.close(Duration.ZERO);
        throw failure;
      }
    }
    throw new OperatorFault("KAFKA_TRANSACTION_TIMEOUT", "the broker allows no transaction of one minute");
  }

  /** The last committed batch. It cannot change, since no transaction of the job is open after initTransactions. */
  private Marker readMarker() {
    try (Admin admin = Admin.create(new HashMap<>(settings.kafka))) {
      return Marker.read(
          admin
              .listConsumerGroupOffsets(
                  settings.markerGroup, new ListConsumerGroupOffsetsOptions().requireStable(true))
              .partitionsToOffsetAndMetadata()
              .get(ADMIN_SECONDS, TimeUnit.SECONDS)
              .get(markerPartition()));
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new OperatorFault("KAFKA_MARKER_UNREADABLE", "reading the marker was interrupted", stopped);
    } catch (ExecutionException | TimeoutException failure) {
      throw Failures.of(
          "KAFKA_MARKER_UNREADABLE", "marker of group " + settings.markerGroup + " cannot be read", failure);
    }
  }

  private TopicPartition markerPartition() {
    return new TopicPartition(settings.topic, 0);
  }

  Marker marker() {
    return done;
  }

  /**
   * Whether the topic has the batch already, so that it is run only for its state. This is possible only for the one
   * batch that the checkpoint had begun and not finished before this run.
   */
  boolean isWritten(long epoch, long replayEpoch) {
    if (epoch > done.batch()) {
      return false;
    }
    if (epoch != replayEpoch || !done.isOf(epoch, endOffsets(epoch))) {
      throw OperatorFault.of(
          "CHECKPOINT_BEHIND_SINK",
          Map.of("table", "topic " + settings.topic, "sink", "batch " + done.batch(), "checkpoint", "batch " + epoch));
    }
    return true;
  }

  /** End offsets of the batch; null if no checkpoint is known. */
  private EndOffsets endOffsets(long epoch) {
    return log == null ? null : log.endOffsets(epoch);
  }

  /** Opens the batch's transaction if it is not open. Thread-safe. */
  void begin(long epoch) {
    if (open == epoch) {
      return;
    }
    synchronized (this) {
      if (open == epoch) {
        return;
      }
      checkAlive();
      if (open != NONE) {
        throw new OperatorFault("KAFKA_TRANSACTION_ZOMBIE", "batch " + open + " is still open at batch " + epoch);
      }
      producer.beginTransaction();
      began = System.currentTimeMillis();
      open = epoch;
    }
  }

  /** Time of {@link #begin} in epoch milliseconds; it is the timestamp of the batch's rows. */
  long beganMillis() {
    return began;
  }

  void send(ProducerRecord<byte[], byte[]> row) {
    producer.send(
        row,
        (metadata, failure) -> {
          if (failure != null && sendError == null) {
            sendError = failure;
          }
        });
  }

  /** Refuses work if another owner has taken over, or after a failed send. */
  void checkAlive() {
    if (dead) {
      throw new OperatorFault(
          "KAFKA_TRANSACTION_ZOMBIE", "the transaction of " + settings.transactionalId + " is over");
    }
    if (sendError != null) {
      throw failed("a row could not be sent to topic " + settings.topic, sendError);
    }
  }

  synchronized void commit(long epoch, long replayEpoch) {
    checkAlive();
    if (isWritten(epoch, replayEpoch)) {
      return;
    }
    note(epoch);
  }

  /** Commits the sent records together with the batch as the last one in the topic. */
  synchronized void note(long epoch) {
    begin(epoch);
    OffsetAndMetadata marker = Marker.of(epoch, endOffsets(epoch), settings.sources);
    try {
      producer.sendOffsetsToTransaction(
          Map.of(markerPartition(), marker), new ConsumerGroupMetadata(settings.markerGroup));
      producer.commitTransaction();
    } catch (RuntimeException failure) {
      throw failed("batch " + epoch + " could not be committed", sendError == null ? failure : sendError);
    }
    done = Marker.read(marker);
    open = NONE;
  }

  private OperatorFault failed(String what, Exception cause) {
    return Failures.of("KAFKA_WRITE_FAILED", what, cause);
  }

  void kill() {
    dead = true;
  }

  void close(Duration timeout) {
    producer.close(timeout);
  }
}
