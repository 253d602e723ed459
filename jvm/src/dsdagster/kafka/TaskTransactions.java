package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * The driver's side of transactions that tasks prepare: commits those of a decision, aborts all others of the job.
 *
 * <p>Ids are {@code job#generation.executor.slot.turn}. The generation is the epoch of the job's own producer, which
 * the broker counts up with each owner, modulo {@link #GENERATIONS}: ids are bounded, and a task of an earlier owner
 * that still runs cannot take the id of a transaction that is prepared now.
 */
final class TaskTransactions implements AutoCloseable {
  private static final int GENERATIONS = 16;
  private static final int ADMIN_SECONDS = 60;
  private static final String RETRY_MILLIS = "20";
  private static final long LATE_NANOS = TimeUnit.SECONDS.toNanos(120);
  private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final Set<Class<? extends Throwable>> GONE =
      Set.of(
          InvalidPidMappingException.class,
          InvalidProducerEpochException.class,
          InvalidTxnStateException.class,
          ProducerFencedException.class);

  final int generation;
  private final SinkSettings settings;
  private final Admin admin;
  private final Pattern ids;
  private final HashMap<String, Long> decided = new HashMap<>();
  private long round;
  private long swept;
  private long sweepUntil;

  /** {@code producerEpoch}: of the job's own producer. */
  TaskTransactions(SinkSettings settings, short producerEpoch) {
    KafkaInternals.check();
    this.settings = settings;
    this.generation = producerEpoch % GENERATIONS;
    this.ids = Pattern.compile(Pattern.quote(settings.transactionalId) + "#\\d+\\.[A-Za-z0-9_-]+\\.\\d+\\.[01]");
    HashMap<String, Object> client = new HashMap<>(settings.kafka);
    client.putIfAbsent("retry.backoff.ms", RETRY_MILLIS);
    this.admin = Admin.create(client);
  }

  static String id(String job, int generation, String name) {
    return job + "#" + generation + "." + name;
  }

  /** Settings for the tasks of the next batch. */
  TaskRound round(RecordColumns columns, long written, int timeoutMillis) {
    return new TaskRound(
        columns,
        settings.kafka,
        settings.transactionalId,
        generation,
        round,
        new HashMap<>(decided),
        timeoutMillis,
        written,
        System.currentTimeMillis());
  }

  /** Commits the transactions of a decision that is in the marker. It may be repeated. */
  void commit(Decision decision, long epoch) {
    if (Faults.isNext("amid-commits", epoch)) {
      end(new Decision(decision.generation(), decision.prepared().subList(0, (decision.prepared().size() + 1) / 2)));
      Faults.at("amid-commits", epoch);
    }
    end(decision);
  }

  private void end(Decision decision) {
    Map<String, KafkaFuture<String>> answers = new LinkedHashMap<>();
    for (Prepared one : decision.prepared()) {
      String id = id(settings.transactionalId, decision.generation(), one.name());
      answers.put(id, EndTransaction.send(admin, id, one));
    }
    List<String> gone = new ArrayList<>();
    for (Map.Entry<String, KafkaFuture<String>> answer : answers.entrySet()) {
      try {
        answer.getValue().get(ADMIN_SECONDS, TimeUnit.SECONDS);
      } catch (ExecutionException failure) {
        if (!GONE.contains(failure.getCause().getClass())) {
          throw failed("the prepared transaction " + answer.getKey(), failure.getCause());
        }
        gone.add(answer.getKey() + ": " + failure.getCause().getMessage());
      } catch (InterruptedException | TimeoutException failure) {
        throw failed("the prepared transaction " + answer.getKey(), failure);
      }
    }
    if (!gone.isEmpty()) {
      abortOthers(); // all that is left of the decision is committed
      throw OperatorFault.of(
          "KAFKA_PREPARED_GONE", Map.of("topic", settings.topic, "detail", String.join("; ", gone)));
    }
  }

  /** Notes that the batch of the round is complete: its slots may be used again. */
  void next(Decision decision, boolean isRepeated) {
    decision.prepared().forEach(one -> decided.put(one.name(), one.round()));
    round++;
    if (isRepeated) {
      sweepUntil = System.nanoTime() + LATE_NANOS;
      swept = System.nanoTime() - PAUSE_NANOS;
    }
    if (System.nanoTime() < sweepUntil && System.nanoTime() - swept >= PAUSE_NANOS) {
      abortOthers();
    }
  }

  /**
   * Aborts all open transactions of the job's tasks; call it only while no decision is to be carried out. Tasks that
   * are lost may begin one later, so {@link #next} repeats it for two minutes.
   */
  void abortOthers() {
    if (sweepUntil == 0) {
      sweepUntil = System.nanoTime() + LATE_NANOS;
    }
    swept = System.nanoTime();
    abort(ids);
  }

  /** Aborts the open transactions of this generation. */
  void abortOwn() {
    abort(Pattern.compile(Pattern.quote(settings.transactionalId + "#" + generation + ".") + ".*"));
  }

  private void abort(Pattern pattern) {
    ListTransactionsOptions open = new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING));
    List<String> found =
        wait(admin.listTransactions(open).all(), "the open transactions").stream()
            .map(TransactionListing::transactionalId)
            .filter(id -> pattern.matcher(id).matches())
            .toList();
    if (!found.isEmpty()) {
      wait(admin.fenceProducers(found).all(), "the open transactions of " + settings.transactionalId);
    }
  }

  private <T> T wait(KafkaFuture<T> answer, String what) {
    try {
      return answer.get(ADMIN_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException failure) {
      throw failed(what, failure.getCause());
    } catch (InterruptedException | TimeoutException failure) {
      throw failed(what, failure);
    }
  }

  private static OperatorFault failed(String what, Throwable cause) {
    if (cause instanceof InterruptedException) {
      Thread.currentThread().interrupt();
    }
    return Failures.of("KAFKA_WRITE_FAILED", what, cause);
  }

  @Override
  public void close() {
    admin.close(Duration.ZERO);
  }
}
