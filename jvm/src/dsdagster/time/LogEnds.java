package dsdagster.time;

import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The true end of an input's log, including open transactions. Rows of an open transaction have old timestamps and
 * appear later, so time may pass a moment only when the reader has passed the end that the log had at that moment.
 */
interface LogEnds extends AutoCloseable {
  /** For inputs whose visible end is the true end. */
  LogEnds NONE =
      new LogEnds() {
        @Override
        public boolean isGuarding() {
          return false;
        }

        @Override
        public Map<String, String> ask() {
          return null;
        }

        @Override
        public Map<String, String> leaders() {
          return Map.of();
        }

        @Override
        public void close() {
          // There is nothing to close.
        }
      };

  boolean isGuarding();

  /** Partition → end; null if the request failed, and nothing may be concluded then. */
  Map<String, String> ask();

  /** Partition → the broker that stamps its records, by the last answer; empty before the first one. */
  Map<String, String> leaders();

  @Override
  void close();

  /** The ends of topics that Spark's Kafka source reads with {@code subscribe}. */
  static LogEnds kafka(CaseInsensitiveStringMap options) {
    return new KafkaLogEnds(options);
  }
}
