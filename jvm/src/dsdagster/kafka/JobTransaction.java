package dsdagster.kafka;

import dsdagster.OperatorFault;
import dsdagster.checkpoint.BatchLog;
import dsdagster.checkpoint.EndOffsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
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
import org.apache.spark.sql.SparkSession;

/**
 * The transactional producer of one job and the last batch it committed.
 *
 * <p>Rules: it is never used after its first failure (the outcome of a failed commit is unknown; only a new producer
 * and the marker can tell). Writers of an older owner are recognized by {@link #incarnation}. The marker is written
 * with every batch, even an empty one, so a marker older than the checkpoint means a lost batch.
 *
 * <p>Where tasks write in transactions of their own ({@link PreparingWriter}), the marker names these transactions: it
 * is the decision about the batch. They are committed after it; an owner that finds a decision carries it out first.
 */
final class JobTransaction {
  private static final long NONE = -1;
  private static final int ADMIN_SECONDS = 30;
  private static final int NANOS_PER_MILLI = 1_000_000;

  final SinkSettings settings;
  final String incarnation = UUID.randomUUID().toString();
  private final KafkaProducer<byte[], byte[]> producer;
  private final int timeoutMillis;
  private TaskTransactions tasks;
  private long tasksBegan;
  private volatile boolean isDeciding;
  private volatile Marker done;
  private volatile long open = NONE;
  private volatile long began;
  private volatile boolean dead;
  private volatile Exception sendError;
  private final BatchLog log;

  JobTransaction(SinkSettings settings) {
    this.settings = settings;
    this.log = settings.checkpoint.isEmpty() ? null : BatchLog.of(SparkSession.active(), settings.checkpoint);
    Producers.Owned owned = Producers.owned(settings.transactionalId, settings.kafka);
    this.producer = owned.producer();
    this.timeoutMillis = owned.timeoutMillis();
    try {
      this.done = readMarker();
      finishDecision();
    } catch (RuntimeException failure) {
      close(Duration.ZERO);
      throw failure;
    }
  }

  /** Carries out the last owner's decision, and aborts the other transactions of its tasks. */
  private void finishDecision() {
    if (done.decision() == null) {
      return;
    }
    if (log == null || log.newestCommitted() < done.batch()) {
      tasks().commit(done.decision(), done.batch());
    }
    tasks().abortOthers();
  }

  private TaskTransactions tasks() {
    if (tasks == null) {
      tasks = new TaskTransactions(settings, KafkaInternals.identity(producer).epoch);
    }
    return tasks;
  }

  /** Settings for tasks that write to the broker themselves; before the first ones, what is left open is aborted. */
  synchronized TaskRound taskRound(RecordColumns columns) {
    if (tasksBegan == 0) {
      tasks().abortOthers();
    }
    tasksBegan = System.nanoTime();
    return tasks.round(columns, done.batch(), timeoutMillis);
  }

  /** The last committed batch. It cannot change, since no transaction of the job is open after initTransactions. */
  private Marker readMarker() {
    try (Admin admin = Admin.create(new HashMap<>(settings.kafka))) {
      OffsetAndMetadata first = offset(admin, settings.markerGroup);
      List<OffsetAndMetadata> pages = new ArrayList<>();
      for (int page = 1; page <= Marker.pages(first); page++) {
        pages.add(offset(admin, Marker.page(settings.markerGroup, page)));
      }
      return Marker.read(first, pages);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new OperatorFault("KAFKA_MARKER_UNREADABLE", "reading the marker was interrupted", stopped);
    } catch (ExecutionException | TimeoutException failure) {
      throw Failures.of(
          "KAFKA_MARKER_UNREADABLE", "marker of group " + settings.markerGroup + " cannot be read", failure);
    }
  }

  private OffsetAndMetadata offset(Admin admin, String group)
      throws InterruptedException, ExecutionException, TimeoutException {
    return admin
        .listConsumerGroupOffsets(group, new ListConsumerGroupOffsetsOptions().requireStable(true))
        .partitionsToOffsetAndMetadata()
        .get(ADMIN_SECONDS, TimeUnit.SECONDS)
        .get(markerPartition());
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

  /** Refuses work after a failed send, for whose reason each task asks, or if another owner has taken over. */
  void checkAlive() {
    if (sendError != null) {
      throw failed("a row could not be sent to topic " + settings.topic, sendError);
    }
    if (dead) {
      throw new OperatorFault(
          "KAFKA_TRANSACTION_ZOMBIE", "the transaction of " + settings.transactionalId + " is over");
    }
  }

  /** Commits the batch. {@code ends}: of tasks that have written to the broker themselves; else empty. */
  synchronized void commit(long epoch, long replayEpoch, List<TaskEnd> ends) {
    checkAlive();
    if (isWritten(epoch, replayEpoch)) {
      return;
    }
    List<Prepared> prepared = ends.stream().map(TaskEnd::prepared).filter(one -> one != null).toList();
    if (prepared.isEmpty()) {
      note(epoch, null);
      return;
    }
    checkAge();
    Decision decision = new Decision(tasks.generation, prepared);
    isDeciding = true;
    note(epoch, decision);
    Faults.at("after-decision", epoch);
    tasks.commit(decision, epoch);
    isDeciding = false;
    tasks.next(decision, ends.stream().anyMatch(TaskEnd::isRepeated));
  }

  /** Refuses a batch whose first tasks' transactions the broker may be about to abort, before it is decided. */
  private void checkAge() {
    long millis = (System.nanoTime() - tasksBegan) / NANOS_PER_MILLI;
    if (millis > timeoutMillis - timeoutMillis / 4) {
      throw OperatorFault.of(
          "KAFKA_BATCH_TOO_LONG",
          Map.of("topic", settings.topic, "seconds", millis / 1000, "limit", timeoutMillis / 1000));
    }
  }

  /**
   * Commits the sent records together with the batch as the last one in the topic.
   *
   * @param decision transactions of tasks that belong to the batch; null if there are none
   */
  synchronized void note(long epoch, Decision decision) {
    begin(epoch);
    Map<String, OffsetAndMetadata> offsets =
        Marker.of(settings.markerGroup, epoch, endOffsets(epoch), settings.sources, decision);
    try {
      offsets.forEach(
          (group, offset) ->
              producer.sendOffsetsToTransaction(Map.of(markerPartition(), offset), new ConsumerGroupMetadata(group)));
      producer.commitTransaction();
    } catch (RuntimeException failure) {
      throw failed("batch " + epoch + " could not be committed", sendError == null ? failure : sendError);
    }
    done = new Marker(epoch, Marker.digest(offsets.get(settings.markerGroup)), decision);
    open = NONE;
  }

  private OperatorFault failed(String what, Exception cause) {
    return Failures.of("KAFKA_WRITE_FAILED", what, cause);
  }

  void kill() {
    dead = true;
  }

  /** Aborts all that tasks of earlier owners have left open. */
  void abortLost() {
    tasks().abortOthers();
  }

  /** Aborts what tasks have prepared, unless it may be decided; the next owner carries a decision out. */
  void abortTasks() {
    if (tasks != null && !isDeciding) {
      tasks.abortOwn();
    }
  }

  void close(Duration timeout) {
    producer.close(timeout);
    if (tasks != null) {
      tasks.close();
    }
  }
}
