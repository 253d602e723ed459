package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidTxnTimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers after {@code initTransactions}: all other owners of the id are fenced. */
final class Producers {
  private static final int[] TIMEOUTS_MILLIS = {900_000, 300_000, 60_000};
  private static final String TIMEOUT = "transaction.timeout.ms";
  private static final Map<String, Object> DEFAULTS =
      Map.of(
          "linger.ms", "5",
          "compression.type", "lz4",
          "batch.size", "262144",
          "delivery.timeout.ms", "60000",
          "retry.backoff.ms", "20");

  private Producers() {}

  /**
   * A producer and the time for which the broker keeps its transactions open.
   *
   * @param timeoutMillis {@code transaction.timeout.ms}
   */
  record Owned(KafkaProducer<byte[], byte[]> producer, int timeoutMillis) {}

  /** A producer with the longest timeout that the broker allows, or with that of the options. */
  static Owned owned(String transactionalId, Map<String, Object> kafka) {
    for (int timeout : TIMEOUTS_MILLIS) {
      Object wanted = kafka.getOrDefault(TIMEOUT, timeout);
      int millis = Integer.parseInt(wanted.toString());
      try {
        return new Owned(initialised(transactionalId, kafka, millis), millis);
      } catch (InvalidTxnTimeoutException longerThanTheBrokerAllows) {
        if (kafka.containsKey(TIMEOUT)) {
          throw longerThanTheBrokerAllows;
        }
      }
    }
    throw new OperatorFault("KAFKA_TRANSACTION_TIMEOUT", "the broker allows no transaction of one minute");
  }

  /** A producer whose transactions may be open for {@code timeoutMillis}. */
  static KafkaProducer<byte[], byte[]> initialised(
      String transactionalId, Map<String, Object> kafka, int timeoutMillis) {
    HashMap<String, Object> options = new HashMap<>(DEFAULTS);
    options.putAll(kafka);
    options.put(TIMEOUT, Integer.toString(timeoutMillis));
    options.put("transactional.id", transactionalId);
    options.put("enable.idempotence", "true");
    options.put("acks", "all");
    KafkaProducer<byte[], byte[]> made =
        new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
    try {
      made.initTransactions();
      return made;
    } catch (AuthorizationException refused) {
      made.close(Duration.ZERO);
      throw Failures.of("KAFKA_WRITE_FAILED", "transactional id " + transactionalId, refused);
    } catch (RuntimeException failure) {
      made.close(Duration.ZERO);
      throw failure;
    }
  }
}
