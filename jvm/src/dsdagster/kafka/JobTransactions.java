package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All open transactional producers of this JVM, by transactional id. Spark makes a new writer for every batch and never
 * closes a sink, so producers are kept here; the engine calls {@link #release} when a job ends.
 */
public final class JobTransactions {
  private static final ConcurrentHashMap<String, JobTransaction> OPEN = new ConcurrentHashMap<>();
  private static final Logger LOG = LoggerFactory.getLogger(JobTransactions.class);
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
      of(settings).note(epoch, null);
    } finally {
      release(settings.transactionalId);
    }
  }

  static JobTransaction find(String transactionalId, String incarnation) {
    JobTransaction found = OPEN.get(transactionalId);
    return found != null && found.incarnation.equals(incarnation) ? found : null;
  }

  /**
   * Discards a transaction and those of its tasks. It is closed on another thread, since a stopped query aborts on an
   * interrupted thread.
   */
  static void drop(JobTransaction transaction) {
    transaction.kill();
    OPEN.remove(transaction.settings.transactionalId, transaction);
    Thread closer = new Thread(() -> end(transaction), "ds-kafka-close");
    closer.setDaemon(true);
    closer.start();
  }

  private static void end(JobTransaction transaction) {
    try {
      transaction.abortTasks();
    } catch (OperatorFault unreachable) {
      LOG.warn("transactions of tasks stay open until the next start: {}", unreachable.getMessage());
    } finally {
      transaction.close(Duration.ZERO);
    }
  }

  /** Closes the producer of a job whose query has ended; does nothing if it has none. */
  public static void release(String transactionalId) {
    JobTransaction found = OPEN.remove(transactionalId);
    if (found != null) {
      found.kill();
      found.close(CLOSE_TIMEOUT);
    }
  }

  /**
   * Fences a dead job: aborts what it and its tasks left open, but first carries out its last decision.
   *
   * @param options options of {@link SinkSettings}
   */
  public static void fence(Map<String, String> options) {
    SinkSettings settings = SinkSettings.of(new CaseInsensitiveStringMap(options), RowLogTopic.COLUMNS);
    release(settings.transactionalId);
    JobTransaction owner = new JobTransaction(settings);
    try {
      if (!SparkSession.active().sparkContext().isLocal()) {
        owner.abortLost();
      }
    } finally {
      owner.close(CLOSE_TIMEOUT);
    }
  }
}
