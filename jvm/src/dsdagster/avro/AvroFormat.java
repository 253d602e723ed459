package dsdagster.avro;

import com.fasterxml.jackson.databind.JsonNode;
import dsdagster.registry.Kept;
import dsdagster.registry.RegistryClient;
import dsdagster.registry.RegistrySettings;
import dsdagster.registry.Schemas;
import dsdagster.registry.Unreadable;
import java.util.HashSet;
import java.util.Set;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaParseException;

/** Avro schemas of a registry. */
final class AvroFormat implements Schemas.Format<Schema> {
  private static final Kept<RegistrySettings, Schemas<Schema>> ALL = new Kept<>();

  private AvroFormat() {}

  static Schemas<Schema> of(RegistrySettings settings) {
    return ALL.of(settings, unused -> new Schemas<>(settings, new AvroFormat()));
  }

  @Override
  public String type() {
    return "AVRO";
  }

  @Override
  public Schema parsed(JsonNode answer, RegistryClient client) {
    try {
      Schema.Parser parser = new Schema.Parser(NameValidator.NO_VALIDATION).setValidateDefaults(false);
      addReferences(answer, parser, client, new HashSet<>());
      return parser.parse(answer.path("schema").asText());
    } catch (AvroRuntimeException problem) {
      throw new Unreadable("cannot be read as an Avro schema");
    }
  }

  /** Adds the referenced schemas before the schemas that use them, each once. */
  private void addReferences(JsonNode answer, Schema.Parser parser, RegistryClient client, Set<String> added) {
    for (JsonNode reference : answer.path("references")) {
      String path = RegistryClient.pathOf(reference);
      if (!added.add(path)) {
        continue;
      }
      JsonNode part = client.get(path);
      if (part == null) {
        throw new SchemaParseException("a part is missing");
      }
      addReferences(part, parser, client, added);
      parser.parse(part.path("schema").asText());
    }
  }
}
