package dsdagster.kafka.read;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** How large the records of a topic are, by those that tasks of this process have read lately. */
final class RecordSizes {
  private static final Map<String, Long> MEANS = new ConcurrentHashMap<>();

  private RecordSizes() {}

  /** Adds the records of one task, which weigh as much as all before it. */
  static void add(String topic, long records, long bytes) {
    if (records > 0) {
      MEANS.merge(topic, bytes / records, (before, now) -> (before + now) / 2);
    }
  }

  /** Mean bytes of a record; negative if none was read. */
  static long mean(String topic) {
    return MEANS.getOrDefault(topic, -1L);
  }
}
