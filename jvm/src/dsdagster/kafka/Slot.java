package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.time.Duration;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/** A producer with a transactional id of its own, used by one task at a time. It is never used after a failure. */
final class Slot {
  static final long NONE = -1;
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);
  final String name;
  final int number;
  final int turn;
  private final KafkaProducer<byte[], byte[]> producer;
  private volatile Exception sendError;
  private volatile long round = NONE;
  private volatile long usedNanos = System.nanoTime();

  Slot(TaskRound settings, String executor, int number) {
    KafkaInternals.check();
    this.number = number;
    this.turn = settings.turn();
    this.name = executor + "." + number + "." + turn;
    this.producer =
        Producers.initialised(
            TaskTransactions.id(settings.job(), settings.generation(), name), settings.kafka(), settings.timeoutMillis());
  }

  /** The round in which its transaction was prepared; {@link #NONE} if it has none. */
  long round() {
    return round;
  }

  long usedNanos() {
    return usedNanos;
  }

  /** Ends its transaction in the producer, too; the driver has committed it, so the broker does nothing more. */
  void settle() {
    producer.commitTransaction();
    round = NONE;
  }

  void begin() {
    producer.beginTransaction();
  }

  void send(ProducerRecord<byte[], byte[]> row) {
    if (sendError != null) {
      throw failed(sendError);
    }
    producer.send(
        row,
        (metadata, failure) -> {
          if (failure != null && sendError == null) {
            sendError = failure;
          }
        });
  }

  /** Waits until the broker has all records, and leaves the transaction open. */
  Prepared prepare(long now) {
    producer.flush();
    if (sendError != null) {
      throw failed(sendError);
    }
    ProducerIdAndEpoch identity = KafkaInternals.identity(producer);
    round = now;
    usedNanos = System.nanoTime();
    return new Prepared(name, identity.producerId, identity.epoch, now);
  }

  private OperatorFault failed(Exception cause) {
    return Failures.of("KAFKA_WRITE_FAILED", "a row could not be sent", cause);
  }

  /** Aborts its transaction, which no decision has, and closes it; on another thread, a killed task is interrupted. */
  void discard() {
    onThread(() -> producer.close(CLOSE_TIMEOUT));
  }

  /** Closes it and leaves its transaction as it is: a producer that is closed in time would abort it. */
  void leave() {
    onThread(() -> producer.close(Duration.ZERO));
  }

  private static void onThread(Runnable work) {
    Thread closer = new Thread(work, "ds-kafka-close");
    closer.setDaemon(true);
    closer.start();
  }
}
