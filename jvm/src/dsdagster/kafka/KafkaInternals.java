package dsdagster.kafka;

import dsdagster.OperatorFault;
import dsdagster.PrivateField;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.internals.AdminApiFuture;
import org.apache.kafka.clients.admin.internals.AdminApiHandler;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * The private members of kafka-clients that transactions in two phases need: the producer id and epoch of a producer,
 * and the admin client's way to send a request of our own to a transaction's coordinator.
 *
 * <p>Rule: they are used with the one version that they were tested with ({@link #VERSION}); {@link #check} refuses
 * all others.
 */
final class KafkaInternals {
  static final String VERSION = "3.9.2";

  private KafkaInternals() {}

  /** Refuses another version of kafka-clients. */
  static void check() {
    check(AppInfoParser.getVersion());
  }

  static void check(String found) {
    if (!found.equals(VERSION)) {
      throw OperatorFault.of("KAFKA_CLIENT_UNKNOWN", Map.of("version", found, "known", VERSION));
    }
  }

  /** Producer id and epoch after {@code initTransactions}. */
  static ProducerIdAndEpoch identity(KafkaProducer<?, ?> producer) {
    try {
      Object manager = PrivateField.of(producer.getClass(), "transactionManager").get(producer);
      return (ProducerIdAndEpoch) PrivateField.of(manager.getClass(), "producerIdAndEpoch").get(manager);
    } catch (ReflectiveOperationException other) {
      throw unknown(other);
    }
  }

  /** Sends the handler's requests; {@code future} gets the answers. Retries, look-ups and logins are the admin's. */
  static <K, V> void send(Admin admin, AdminApiHandler<K, V> handler, AdminApiFuture<K, V> future) {
    try {
      Method driver =
          admin
              .getClass()
              .getDeclaredMethod("invokeDriver", AdminApiHandler.class, AdminApiFuture.class, Integer.class);
      driver.setAccessible(true);
      driver.invoke(admin, handler, future, null);
    } catch (InvocationTargetException failure) {
      throw failure.getCause() instanceof RuntimeException known ? known : unknown(failure);
    } catch (ReflectiveOperationException other) {
      throw unknown(other);
    }
  }

  private static OperatorFault unknown(Exception cause) {
    return new OperatorFault("KAFKA_CLIENT_UNKNOWN", "kafka-clients " + AppInfoParser.getVersion(), cause);
  }
}
