package dsdagster.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import dsdagster.OperatorFault;
import dsdagster.checkpoint.EndOffsets;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * The last batch in a topic, stored as the offset of a consumer group: the offset is the batch's number, the offset's
 * metadata describes its end offsets.
 *
 * <p>The metadata is JSON: {@code digest} of the end offsets, {@code decided} (a {@link Decision}) if tasks wrote in
 * transactions of their own, and, if all of it is below the broker's limit ({@code offset.metadata.max.bytes}, 4 kB by
 * default), the {@code offsets} themselves and their {@code sources}, from which a job can continue when its checkpoint
 * is lost. A decision that is too long goes on in other groups, {@code pages} of them, committed in the same
 * transaction. The metadata is empty if the batch has no checkpoint and no decision, and in markers of earlier versions
 * of the package.
 *
 * @param batch number of the batch; -1 if there is none
 * @param digest digest of its end offsets; empty if unknown
 * @param decision transactions that belong to the batch; null if there are none
 */
record Marker(long batch, String digest, Decision decision) {
  static final Marker NONE = new Marker(-1, "", null);
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final int METADATA_BYTES = 4096;
  private static final int PAGE_CHARACTERS = 3500;

  /** Number of other groups that the decision goes on in. */
  static int pages(OffsetAndMetadata first) {
    return metadata(first).path("pages").asInt();
  }

  /** The group of a page, counted from 1. */
  static String page(String group, int page) {
    return group + "~decided~" + page;
  }

  static String digest(OffsetAndMetadata first) {
    return metadata(first).path("digest").asText();
  }

  /** {@code pages}: of {@link #page}, in order. */
  static Marker read(OffsetAndMetadata first, List<OffsetAndMetadata> pages) {
    if (first == null) {
      return NONE;
    }
    StringBuilder decided = new StringBuilder(metadata(first).path("decided").asText());
    for (OffsetAndMetadata page : pages) {
      if (page == null || page.offset() != first.offset()) {
        throw new OperatorFault("KAFKA_MARKER_UNREADABLE", "a page of the decision is missing: " + first.metadata());
      }
      decided.append(page.metadata());
    }
    Decision decision = decided.isEmpty() ? null : Decision.of(decided.toString());
    return new Marker(first.offset(), digest(first), decision);
  }

  private static JsonNode metadata(OffsetAndMetadata found) {
    String metadata = found == null ? null : found.metadata();
    if (metadata == null || metadata.isEmpty()) {
      return MissingNode.getInstance();
    }
    try {
      JsonNode read = MAPPER.readTree(metadata);
      if (read.path("digest").isTextual()) {
        return read;
      }
    } catch (JsonProcessingException unreadable) {
      // refused below
    }
    throw new OperatorFault("KAFKA_MARKER_UNREADABLE", "the marker's metadata is not of this version: " + metadata);
  }

  /**
   * The offsets to commit for a batch, by group.
   *
   * @param offsets end offsets; null if the batch has no checkpoint
   * @param sources JSON object: source → its identity, which differs from that of a later source of the same name
   * @param decision null if there is none
   */
  static Map<String, OffsetAndMetadata> of(
      String group, long batch, EndOffsets offsets, String sources, Decision decision) {
    Map<String, OffsetAndMetadata> found = new LinkedHashMap<>();
    String decided = decision == null ? "" : decision.text();
    ObjectNode metadata = MAPPER.createObjectNode().put("digest", offsets == null ? "" : offsets.digest());
    if (decision != null) {
      metadata.put("decided", decided.substring(0, Math.min(PAGE_CHARACTERS, decided.length())));
    }
    for (int at = PAGE_CHARACTERS; at < decided.length(); at += PAGE_CHARACTERS) {
      String page = decided.substring(at, Math.min(at + PAGE_CHARACTERS, decided.length()));
      found.put(page(group, found.size() + 1), new OffsetAndMetadata(batch, page));
    }
    if (!found.isEmpty()) {
      metadata.put("pages", found.size());
    }
    boolean isEmpty = offsets == null && decision == null;
    found.put(group, new OffsetAndMetadata(batch, isEmpty ? "" : withOffsets(metadata, offsets, sources)));
    return found;
  }

  private static String withOffsets(ObjectNode metadata, EndOffsets offsets, String sources) {
    String least = metadata.toString();
    if (offsets == null) {
      return least;
    }
    metadata.putRawValue("offsets", new RawValue(offsets.json()));
    String all = metadata.putRawValue("sources", new RawValue(sources)).toString();
    return all.getBytes(StandardCharsets.UTF_8).length <= METADATA_BYTES ? all : least;
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
