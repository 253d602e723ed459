package dsdagster.kafka.read;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * Splits what a batch reads of a partition into tasks whose results fit into memory, if the driver collects them: as
 * many records as the option says, fewer if they are large or if their size is not known yet.
 *
 * <p>Rule: tasks take turns among the partitions, so that tasks that run side by side read different ones, and each
 * goes on where the consumer before it stopped.
 */
final class TaskRanges {
  private static final String MOST = "maxRecordsPerTask";
  private static final long BYTES = 16L << 20;
  private static final long OF_UNKNOWN_SIZE = 20_000;
  private final long most;

  TaskRanges(CaseInsensitiveStringMap options) {
    most = options.getLong(MOST, 0);
  }

  InputPartition[] of(InputPartition[] planned) {
    if (most == 0) {
      return planned;
    }
    List<Turn> turns = new ArrayList<>();
    for (InputPartition one : planned) {
      KafkaBatchInputPartition whole = (KafkaBatchInputPartition) one;
      KafkaOffsetRange range = whole.offsetRange();
      long limit = limit(range.topic());
      int tasks = (int) Math.max(1, (range.size() + limit - 1) / limit);
      for (int task = 0; task < tasks; task++) {
        turns.add(new Turn(task, tasks == 1 ? whole : part(whole, task, tasks)));
      }
    }
    turns.sort(Comparator.comparingInt(Turn::number)); // keeps the order of the partitions within a turn
    return turns.stream().map(Turn::read).toArray(InputPartition[]::new);
  }

  private long limit(String topic) {
    long mean = RecordSizes.mean(topic);
    return mean < 0 ? Math.min(most, OF_UNKNOWN_SIZE) : Math.min(most, Math.max(1, BYTES / Math.max(1, mean)));
  }

  /** One of several parts of about the same size. It may run anywhere, as with Spark's own option for this. */
  private static KafkaBatchInputPartition part(KafkaBatchInputPartition whole, long task, long tasks) {
    KafkaOffsetRange range = whole.offsetRange();
    long from = range.fromOffset() + range.size() * task / tasks;
    long until = range.fromOffset() + range.size() * (task + 1) / tasks;
    return new KafkaBatchInputPartition(
        new KafkaOffsetRange(range.topicPartition(), from, until, Option.empty()),
        whole.executorKafkaParams(),
        whole.pollTimeoutMs(),
        whole.failOnDataLoss(),
        whole.includeHeaders());
  }

  private record Turn(int number, KafkaBatchInputPartition read) {}
}
