package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Settings of the sink.
 *
 * <p>Options: {@code topic}; {@code transactional.id} (the job without version, so that a new version fences an old
 * one); {@code marker.group} (job and checkpoint version, so that a new checkpoint has no old marker);
 * {@code replay.epoch} (the one batch that may be in the topic already and is then skipped; -1 or absent: no batch);
 * {@code checkpoint} (source of the batches' offsets for the marker; absent: the marker has no offsets);
 * {@code sources} (for the marker, JSON object: source → its identity, see {@link Marker#of});
 * {@code epoch} (the batch's number, if the sink is written inside a function called with every batch);
 * {@code row.log.job} (job whose row logs are written with each batch; absent: no logs); {@code kafka.*} for producer
 * and admin client. Columns: {@code value} binary, and optionally {@code key} binary, {@code headers} array of (key
 * string, value binary), {@code partition} int, {@code timestamp} timestamp.
 */
final class SinkSettings implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final String KAFKA_PREFIX = "kafka.";
  private static final long NO_REPLAY = -1;
  private static final long EPOCH_UNKNOWN = -1;

  final String topic;
  final String transactionalId;
  final String markerGroup;
  final String checkpoint;
  final String sources;
  final long replayEpoch;
  final String rowLogJob;
  private final long epoch;
  final HashMap<String, Object> kafka;
  final RecordColumns columns;

  private SinkSettings(CaseInsensitiveStringMap options, StructType schema) {
    topic = required(options, "topic");
    transactionalId = required(options, "transactional.id");
    markerGroup = options.getOrDefault("marker.group", transactionalId);
    checkpoint = options.getOrDefault("checkpoint", "");
    sources = options.getOrDefault("sources", "{}");
    replayEpoch = options.getLong("replay.epoch", NO_REPLAY);
    rowLogJob = options.getOrDefault("row.log.job", "");
    epoch = options.getLong("epoch", EPOCH_UNKNOWN);
    kafka = kafkaOptions(options.asCaseSensitiveMap());
    columns = RecordColumns.of(topic, schema);
  }

  /** The number of the batch from the options, for batches that Spark does not write as part of a stream. */
  long epoch() {
    if (epoch == EPOCH_UNKNOWN) {
      throw new OperatorFault("KAFKA_SINK_OPTION", "a batch for the Kafka sink needs the option epoch");
    }
    return epoch;
  }

  static SinkSettings of(CaseInsensitiveStringMap options, StructType schema) {
    return new SinkSettings(options, schema);
  }

  /** Entries that begin with {@code kafka.}, without the prefix. */
  static HashMap<String, Object> kafkaOptions(Map<String, String> options) {
    HashMap<String, Object> found = new HashMap<>();
    options.forEach(
        (name, text) -> {
          String folded = name.toLowerCase(Locale.ROOT);
          if (folded.startsWith(KAFKA_PREFIX)) {
            found.put(folded.substring(KAFKA_PREFIX.length()), text);
          }
        });
    return found;
  }

  private static String required(CaseInsensitiveStringMap options, String name) {
    String text = options.get(name);
    if (text == null || text.isEmpty()) {
      throw new OperatorFault("KAFKA_SINK_OPTION", "the Kafka sink needs the option " + name);
    }
    return text;
  }
}
