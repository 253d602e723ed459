package dsdagster.time;

import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The true end of an input's log, open transactions included. Rows of an open transaction carry old timestamps and
 * appear later; time may pass a moment only when the reader has passed the end the log had at that moment.
 */
interface LogEnds extends AutoCloseable {
  /** For inputs whose visible end is the true one. */
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
          // Holds nothing.
        }
      };

  boolean isGuarding();

  /** Partition → end, or null when it could not be had: nothing may be concluded then. */
  Map<String, String> ask();

  /** Partition → the broker that stamps its records, as of the last answer; empty before one. */
  Map<String, String> leaders();

  @Override
  void close();

  /** The guard of a topic read by Spark's Kafka source with {@code subscribe}. */
  static LogEnds kafka(CaseInsensitiveStringMap options) {
    return new KafkaLogEnds(options);
  }
}
