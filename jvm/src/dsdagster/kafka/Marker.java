package dsdagster.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import dsdagster.OperatorFault;
import dsdagster.checkpoint.EndOffsets;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * The last batch in a topic, stored as the offset of a consumer group: the offset is the batch's number, the offset's
 * metadata describes its end offsets.
 *
 * <p>The metadata is JSON: {@code digest} of the end offsets, and, if all of it is below the broker's limit ({@code
 * offset.metadata.max.bytes}, 4 kB by default), the {@code offsets} themselves and their {@code sources}, from which a
 * job can continue when its checkpoint is lost. It is empty if the batch has no checkpoint, and in markers of earlier
 * versions of the package.
 *
 * @param batch number of the batch; -1 if there is none
 * @param digest digest of its end offsets; empty if unknown
 */
record Marker(long batch, String digest) {
  static final Marker NONE = new Marker(-1, "");
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final int METADATA_BYTES = 4096;

  static Marker read(OffsetAndMetadata found) {
    if (found == null) {
      return NONE;
    }
    String metadata = found.metadata();
    if (metadata == null || metadata.isEmpty()) {
      return new Marker(found.offset(), "");
    }
    try {
      JsonNode digest = MAPPER.readTree(metadata).path("digest");
      if (digest.isTextual()) {
        return new Marker(found.offset(), digest.asText());
      }
    } catch (JsonProcessingException unreadable) {
      // refused below
    }
    throw new OperatorFault("KAFKA_MARKER_UNREADABLE", "the marker's metadata is not of this version: " + metadata);
  }

  /**
   * The marker to commit for a batch.
   *
   * @param offsets end offsets; null if the batch has no checkpoint
   * @param sources JSON object: source → its identity, which differs from that of a later source of the same name
   */
  static OffsetAndMetadata of(long batch, EndOffsets offsets, String sources) {
    if (offsets == null) {
      return new OffsetAndMetadata(batch);
    }
    ObjectNode metadata = MAPPER.createObjectNode().put("digest", offsets.digest());
    String digest = metadata.toString();
    metadata.putRawValue("offsets", new RawValue(offsets.json()));
    String all = metadata.putRawValue("sources", new RawValue(sources)).toString();
    boolean fits = all.getBytes(StandardCharsets.UTF_8).length <= METADATA_BYTES;
    return new OffsetAndMetadata(batch, fits ? all : digest);
  }

  /** Whether it is the marker of this batch. An unknown digest is not compared. */
  boolean isOf(long epoch, EndOffsets offsets) {
    return batch == epoch && (digest.isEmpty() || offsets == null || digest.equals(offsets.digest()));
  }

  /** JSON with {@code batch} and {@code offsets}; null if there is no batch. */
  String json() {
    return batch < 0 ? "null" : MAPPER.createObjectNode().put("batch", batch).put("offsets", digest).toString();
  }
}
