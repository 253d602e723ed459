package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Two phases without Spark, each owner in turn: {@code TwoPhases BROKER TOPIC JOB}. Ends with {@code right}, or with what
 * is wrong; then readers of committed records find {@code a0 a1 b0 b1} in the topic, and {@code foreign} is open.
 */
public final class TwoPhases {
  private static final int MANY = 2000;
  private static final int PAGE_BYTES = 4096;
  private final String topic;
  private final Map<String, String> options = new HashMap<>();

  private TwoPhases(String broker, String topic, String job) {
    this.topic = topic;
    options.putAll(Map.of("kafka.bootstrap.servers", broker, "topic", topic, "transactional.id", job));
    options.put("marker.group", job + "/v1");
  }

  public static void main(String[] arguments) {
    TwoPhases run = new TwoPhases(arguments[0], arguments[1], arguments[2]);
    check(failure(() -> KafkaInternals.check("4.3.1")).contains("KAFKA_CLIENT_UNKNOWN"), "other clients are refused");
    longDecision();
    run.decisionsAreFinished();
    run.goneTransactionsAreNamed();
    run.longBatchesAreRefused();
    System.out.println("right");
    System.exit(0);
  }

  /** A decision of any length comes back from its pages. */
  private static void longDecision() {
    List<Prepared> prepared = new ArrayList<>();
    for (int i = 0; i < MANY; i++) {
      prepared.add(new Prepared(i % 100 + "." + i / 100 + ".1", 5_000_000_000L + i, (short) (i % 7), 0));
    }
    Decision decision = new Decision(11, prepared);
    Map<String, OffsetAndMetadata> offsets = Marker.of("g", 7, null, "{}", decision);
    List<OffsetAndMetadata> pages = new ArrayList<>();
    for (int page = 1; page <= Marker.pages(offsets.get("g")); page++) {
      pages.add(offsets.get(Marker.page("g", page)));
    }
    check(offsets.size() > 2 && pages.size() == offsets.size() - 1, "the decision has pages");
    check(offsets.values().stream().allMatch(one -> bytes(one.metadata()) <= PAGE_BYTES), "pages fit");
    check(Marker.read(offsets.get("g"), pages).decision().equals(decision), "the decision is the same");
  }

  /** A driver that dies amid the commits, and the next owners. */
  private void decisionsAreFinished() {
    JobTransaction first = new JobTransaction(settings());
    TaskRound round = first.taskRound(settings().columns);
    List<TaskEnd> ends = List.of(prepared(round, 0, "a0"), prepared(round, 1, "a1"), new TaskEnd(null, false));
    prepared(round, 2, "lost attempt");
    KafkaProducer<byte[], byte[]> foreign = open(settings().transactionalId + "~log", "foreign");
    Faults.set("amid-commits@0");
    check(failure(() -> first.commit(0, -1, ends)).contains("injected"), "the driver dies amid the commits");
    for (int owner = 0; owner < 2; owner++) {
      check(new JobTransaction(settings()).marker().batch() == 0, "the marker is that of the batch");
    }
    check(foreign != null, "a transaction of somebody else");
    JobTransaction last = new JobTransaction(settings());
    TaskRound next = last.taskRound(settings().columns);
    List<TaskEnd> more = List.of(prepared(next, 0, "b0"), prepared(next, 1, "b1"));
    last.commit(1, -1, more);
    check(last.taskRound(settings().columns).turn() != next.turn(), "batches take turns");
  }

  /** Kafka has aborted a transaction of a decided batch: each start says so, and the version after it does not. */
  private void goneTransactionsAreNamed() {
    JobTransaction owner = new JobTransaction(settings());
    TaskRound round = owner.taskRound(settings().columns);
    TaskEnd end = prepared(round, 0, "gone");
    prepared(round, 1, "lost attempt");
    Faults.set("after-decision@2");
    check(failure(() -> owner.commit(2, -1, List.of(end))).contains("injected"), "the driver dies after the decision");
    String id = TaskTransactions.id(round.job(), round.generation(), end.prepared().name());
    Producers.initialised(id, settings().kafka, 60_000);
    for (int start = 0; start < 2; start++) {
      check(failure(() -> new JobTransaction(settings())).contains("KAFKA_PREPARED_GONE"), "lost rows are named");
    }
    options.put("marker.group", settings().transactionalId + "/v2");
    new JobTransaction(settings());
  }

  /** A batch that is as old as its transactions may be is refused before it is decided. */
  private void longBatchesAreRefused() {
    options.put("kafka.transaction.timeout.ms", "20");
    JobTransaction owner = new JobTransaction(settings());
    owner.taskRound(settings().columns);
    List<TaskEnd> ends = List.of(new TaskEnd(new Prepared("0.0.0", 1, (short) 0, 0), false));
    long began = System.nanoTime();
    while (System.nanoTime() - began < 20_000_000) {
      Thread.onSpinWait();
    }
    String refused = failure(() -> owner.commit(0, -1, ends));
    check(refused.contains("KAFKA_BATCH_TOO_LONG"), refused);
  }

  private SinkSettings settings() {
    return SinkSettings.of(new CaseInsensitiveStringMap(options), RowLogTopic.COLUMNS);
  }

  private TaskEnd prepared(TaskRound round, int number, String text) {
    Slot slot = new Slot(round, "0", number);
    slot.begin();
    slot.send(record(text));
    return new TaskEnd(slot.prepare(round.round()), false);
  }

  private KafkaProducer<byte[], byte[]> open(String id, String text) {
    KafkaProducer<byte[], byte[]> producer = Producers.initialised(id, settings().kafka, 600_000);
    producer.beginTransaction();
    producer.send(record(text));
    producer.flush();
    return producer;
  }

  private ProducerRecord<byte[], byte[]> record(String text) {
    int partition = text.equals("foreign") ? 1 : 0;
    return new ProducerRecord<>(topic, partition, null, text.getBytes(StandardCharsets.UTF_8));
  }

  private static int bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8).length;
  }

  private static String failure(Runnable work) {
    try {
      work.run();
    } catch (OperatorFault | IllegalStateException failure) {
      return failure.getMessage();
    }
    return "";
  }

  private static void check(boolean isRight, String what) {
    if (!isRight) {
      System.out.println("wrong: " + what);
      System.exit(1);
    }
  }
}
