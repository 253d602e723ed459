package dsdagster.kafka;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * All open transactional producers of this JVM, by transactional id. Spark makes a new writer for every batch and never
 * closes a sink, so producers are kept here; the engine calls {@link #release} when a job ends.
 */
public final class JobTransactions {
  private static final ConcurrentHashMap<String, JobTransaction> OPEN = new ConcurrentHashMap<>();
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(2);

  private JobTransactions() {}

  /**
   * The job's transaction. A new one, which fences all others, if there is none or if it belongs to another version.
   */
  static JobTransaction of(SinkSettings settings) {
    return OPEN.compute(
        settings.transactionalId,
        (id, found) -> {
          if (found != null && found.settings.markerGroup.equals(settings.markerGroup)
              && found.settings.topic.equals(settings.topic)
              && found.settings.checkpoint.equals(settings.checkpoint)) {
            return found;
          }
          if (found != null) {
            found.kill();
            found.close(Duration.ZERO);
          }
          return new JobTransaction(settings);
        });
  }

  /**
   * Opens the job's transaction before its first batch; returns the marker as JSON, see {@link Marker#json}.
   *
   * @param options options of {@link SinkSettings}
   */
  public static String open(Map<String, String> options) {
    return of(SinkSettings.of(new CaseInsensitiveStringMap(options), RowLogTopic.COLUMNS)).marker().json();
  }

  /**
   * Writes the marker for a planned batch of the checkpoint, whatever the marker was before: another job has written
   * the rows. No query of the job may be running.
   *
   * @param options options of {@link SinkSettings}
   */
  public static void noteWritten(Map<String, String> options, long epoch) {
    SinkSettings settings = SinkSettings.of(new CaseInsensitiveStringMap(options), RowLogTopic.COLUMNS);
    try {
      of(settings).note(epoch);
    } finally {
      release(settings.transactionalId);
    }
  }

  static JobTransaction find(String transactionalId, String incarnation) {
    JobTransaction found = OPEN.get(transactionalId);
    return found != null && found.incarnation.equals(incarnation) ? found : null;
  }

  /** Discards a transaction. It is closed on another thread, since a stopped query aborts on an interrupted thread. */
  static void drop(JobTransaction transaction) {
    transaction.kill();
    OPEN.remove(transaction.settings.transactionalId, transaction);
    Thread closer = new Thread(() -> transaction.close(Duration.ZERO), "ds-kafka-close");
    closer.setDaemon(true);
    closer.start();
  }

  /** Closes the producer of a job whose query has ended; does nothing if it has none. */
  public static void release(String transactionalId) {
    JobTransaction found = OPEN.remove(transactionalId);
    if (found != null) {
      found.kill();
      found.close(CLOSE_TIMEOUT);
    }
  }

  /** Fences a dead job and aborts its open transaction. {@code kafka}: client options, without a prefix. */
  public static void fence(String transactionalId, Map<String, String> kafka) {
    release(transactionalId);
    JobTransaction.initialised(transactionalId, new HashMap<>(kafka)).close(CLOSE_TIMEOUT);
  }
}
