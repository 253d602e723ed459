package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Maps failures of Kafka to conditions: retries do not help against a missing grant or a wrong password. */
final class Failures {
  private static final Map<Class<? extends Throwable>, String> CONDITIONS = new LinkedHashMap<>();

  static {
    CONDITIONS.put(ProducerFencedException.class, "KAFKA_TRANSACTION_FENCED");
    CONDITIONS.put(InvalidProducerEpochException.class, "KAFKA_TRANSACTION_FENCED");
    CONDITIONS.put(AuthorizationException.class, "KAFKA_NOT_ALLOWED");
    CONDITIONS.put(AuthenticationException.class, "KAFKA_LOGIN_REFUSED");
    CONDITIONS.put(UnknownTopicOrPartitionException.class, "INPUT_GONE");
    CONDITIONS.put(RecordTooLargeException.class, "RECORD_TOO_LARGE");
  }

  private Failures() {}

  /** The fault for the first known exception in the chain of causes; else the condition {@code otherwise}. */
  static OperatorFault of(String otherwise, String what, Throwable cause) {
    for (Throwable one = cause; one != null; one = one.getCause()) {
      for (Map.Entry<Class<? extends Throwable>, String> known : CONDITIONS.entrySet()) {
        if (known.getKey().isInstance(one)) {
          return new OperatorFault(known.getValue(), what + ": " + one, cause);
        }
      }
      // inside a transaction the producer reports a missing grant only in the message
      if (String.valueOf(one.getMessage()).contains("authorization failed")) {
        return new OperatorFault("KAFKA_NOT_ALLOWED", what + ": " + one, cause);
      }
    }
    return new OperatorFault(otherwise, what + ": " + cause, cause);
  }
}
