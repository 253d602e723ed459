package dsdagster.registry;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Schemas of one registry, shared by all tasks of a run of a job in this JVM.
 *
 * <p>Rule: an id always means the same schema, so it is requested once per run; a new run requests it again, since the
 * registry may have been set up again. An id that the registry does not know is requested again after
 * {@link #MISSING_NANOS}: a replica may not have it yet.
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
    /** Name of the type in registries. */
    String type();

    /** The part of the address after the path. */
    default String query() {
      return "";
    }

    /**
     * A schema from a registry's answer.
     *
     * @throws Unreadable why it cannot be used; the reason is written after "schema 7"
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
