package dsdagster.registry;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Schemas of one registry, shared by all tasks of a run of a job in this JVM.
 *
 * <p>Rule: an id means the same schema for ever, so it is asked for once; a new run asks again, in case the registry was
 * set up anew. An id the registry does not know is asked for
 * again after {@link #MISSING_NANOS}: it may be on its way to a replica.
 */
public final class Schemas<T> {
  static final long MISSING_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final RegistryClient client;
  private final Format<T> format;
  private final Map<SchemaKey, Found<T>> found = new ConcurrentHashMap<>();
  private final Map<SchemaKey, Long> missing = new ConcurrentHashMap<>();

  public Schemas(RegistrySettings settings, Format<T> format) {
    this.client = new RegistryClient(settings);
    this.format = format;
  }

  /** How the schemas of a format are requested and read. */
  public interface Format<T> {
    /** The type as registries call it. */
    String type();

    /** The part of the address after the path. */
    default String query() {
      return "";
    }

    /**
     * A schema from a registry's answer.
     *
     * @throws Unreadable why it cannot be used, to stand behind "schema 7"
     */
    T parsed(JsonNode answer, RegistryClient client);
  }

  /** A schema, or why it cannot be used. */
  public static final class Found<T> {
    public final T schema;
    public final String reason;

    Found(T schema, String reason) {
      this.schema = schema;
      this.reason = reason;
    }
  }

  /** The schema of a key; null where the registry does not know it. */
  public Found<T> by(SchemaKey key) {
    Found<T> known = found.get(key);
    return known != null || isMissing(key) ? known : fetched(key);
  }

  private boolean isMissing(SchemaKey key) {
    Long since = missing.get(key);
    return since != null && System.nanoTime() - since < MISSING_NANOS;
  }

  private synchronized Found<T> fetched(SchemaKey key) {
    Found<T> known = found.get(key); // another task may have requested it meanwhile
    if (known != null || isMissing(key)) {
      return known;
    }
    JsonNode answer = client.get(key.path() + format.query());
    if (answer == null) {
      missing.put(key, System.nanoTime());
      return null;
    }
    Found<T> made = parsed(answer);
    found.put(key, made);
    missing.remove(key);
    return made;
  }

  private Found<T> parsed(JsonNode answer) {
    String type = answer.path("schemaType").asText("AVRO");
    if (!type.equals(format.type())) {
      return new Found<>(null, "is of type " + type + ", not " + format.type());
    }
    try {
      return new Found<>(format.parsed(answer, client), null);
    } catch (Unreadable problem) {
      return new Found<>(null, problem.getMessage());
    }
  }
}
