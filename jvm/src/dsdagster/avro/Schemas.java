package dsdagster.avro;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaParseException;

/**
 * Schemas of one registry by id, shared by all tasks of a run of a job in this JVM.
 *
 * <p>Rule: an id means the same schema for ever, so it is asked for once; a new run asks again, in case the registry was
 * set up anew. An id the registry does not know is asked for
 * again after {@link #MISSING_NANOS}: it may be on its way to a replica.
 */
final class Schemas {
  static final long MISSING_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final Kept<RegistrySettings, Schemas> ALL = new Kept<>();

  private final RegistryClient client;
  private final Map<Integer, Found> found = new ConcurrentHashMap<>();
  private final Map<Integer, Long> missing = new ConcurrentHashMap<>();

  private Schemas(RegistrySettings settings) {
    this.client = new RegistryClient(settings);
  }

  static Schemas of(RegistrySettings settings) {
    return ALL.of(settings, Schemas::new);
  }

  /** A schema, or why it cannot be used. */
  static final class Found {
    final Schema schema;
    final String reason;

    Found(Schema schema, String reason) {
      this.schema = schema;
      this.reason = reason;
    }
  }

  /** The schema of an id; null where the registry does not know it. */
  Found byId(int id) {
    Found known = found.get(id);
    return known != null || isMissing(id) ? known : fetched(id);
  }

  private boolean isMissing(int id) {
    Long since = missing.get(id);
    return since != null && System.nanoTime() - since < MISSING_NANOS;
  }

  private synchronized Found fetched(int id) {
    Found known = found.get(id); // another task may have asked meanwhile
    if (known != null || isMissing(id)) {
      return known;
    }
    JsonNode answer = client.get("/schemas/ids/" + id);
    if (answer == null) {
      missing.put(id, System.nanoTime());
      return null;
    }
    Found made = parsed(answer);
    found.put(id, made);
    missing.remove(id);
    return made;
  }

  private Found parsed(JsonNode answer) {
    String type = answer.path("schemaType").asText("AVRO");
    if (!type.equals("AVRO")) {
      return new Found(null, "is of type " + type + ", not AVRO");
    }
    try {
      Schema.Parser parser = new Schema.Parser(NameValidator.NO_VALIDATION).setValidateDefaults(false);
      addReferences(answer, parser, new HashSet<>());
      return new Found(parser.parse(answer.path("schema").asText()), null);
    } catch (AvroRuntimeException problem) {
      return new Found(null, "cannot be read as an Avro schema");
    }
  }

  /** Schemas that others are made of come first, each once. */
  private void addReferences(JsonNode answer, Schema.Parser parser, Set<String> added) {
    for (JsonNode reference : answer.path("references")) {
      String subject = URLEncoder.encode(reference.path("subject").asText(), StandardCharsets.UTF_8).replace("+", "%20");
      String path = "/subjects/" + subject + "/versions/" + reference.path("version").asInt();
      if (!added.add(path)) {
        continue;
      }
      JsonNode part = client.get(path);
      if (part == null) {
        throw new SchemaParseException("a part is missing");
      }
      addReferences(part, parser, added);
      parser.parse(part.path("schema").asText());
    }
  }
}
