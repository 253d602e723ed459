package dsdagster.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * End offsets of all sources of a batch, read from the batch's entry in the offset log.
 *
 * <p>Rules: {@code json} is canonical, so that equal offsets have equal texts: an array in the order of the log
 * ({@code v1}), or an object by the name of the source ({@code v2}), with sorted keys and without blanks. A source
 * that has no offset yet is null. The entry's second line (time of the batch, watermark, settings) is left out: it may
 * differ where the offsets are equal.
 */
public record EndOffsets(String json, String digest) {
  private static final ObjectMapper MAPPER =
      new ObjectMapper()
          .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
  private static final int HEADER_LINES = 2;
  private static final String VOID = "-";

  static EndOffsets of(String entry) {
    List<String> lines = entry.lines().toList();
    if (lines.size() < HEADER_LINES) {
      throw BatchLog.unreadable("an entry of the offset log is incomplete", null);
    }
    List<String> sources = lines.subList(HEADER_LINES, lines.size());
    Object offsets =
        switch (lines.get(0).trim()) {
          case "v1" -> inOrder(sources);
          case "v2" -> byName(sources);
          default -> throw BatchLog.unreadable("the offset log has the unknown format " + lines.get(0), null);
        };
    try {
      String json = MAPPER.writeValueAsString(offsets);
      return new EndOffsets(json, digest(json));
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static List<Object> inOrder(List<String> lines) {
    List<Object> found = new ArrayList<>();
    for (String line : lines) {
      found.add(offset(line));
    }
    return found;
  }

  private static Map<String, Object> byName(List<String> lines) {
    Map<String, Object> found = new TreeMap<>();
    for (String line : lines) {
      int colon = line.indexOf(':');
      if (colon < 0) {
        throw BatchLog.unreadable("an entry of the offset log names no source", null);
      }
      found.put(line.substring(0, colon), offset(line.substring(colon + 1)));
    }
    return found;
  }

  /** The offset of a source as JSON; a text that is not JSON is kept as a string. */
  private static Object offset(String text) {
    if (text.equals(VOID)) {
      return null;
    }
    try {
      return MAPPER.readValue(text, Object.class);
    } catch (JsonProcessingException plain) {
      return text;
    }
  }

  private static String digest(String json) {
    try {
      MessageDigest sha = MessageDigest.getInstance("SHA-256");
      return HexFormat.of().formatHex(sha.digest(json.getBytes(StandardCharsets.UTF_8)));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
