package dsdagster.protobuf;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.InvalidProtocolBufferException;
import dsdagster.registry.Kept;
import dsdagster.registry.RegistryClient;
import dsdagster.registry.RegistrySettings;
import dsdagster.registry.Schemas;
import dsdagster.registry.Unreadable;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

/**
 * Protobuf schemas of a registry: files, requested as serialized descriptors in base64 as Confluent's own clients do,
 * so that their text need not be compiled.
 */
final class ProtobufFormat implements Schemas.Format<FileDescriptor> {
  private static final Kept<RegistrySettings, Schemas<FileDescriptor>> ALL = new Kept<>();
  private static final String MAIN = "(the schema)";

  private ProtobufFormat() {}

  static Schemas<FileDescriptor> of(RegistrySettings settings) {
    return ALL.of(settings, unused -> new Schemas<>(settings, new ProtobufFormat()));
  }

  @Override
  public String type() {
    return "PROTOBUF";
  }

  @Override
  public String query() {
    return "?format=serialized";
  }

  @Override
  public FileDescriptor parsed(JsonNode answer, RegistryClient client) {
    Map<String, FileDescriptorProto> files = new HashMap<>();
    addReferences(answer, client, files);
    return Descriptors.linked(file(answer, MAIN), files);
  }

  private void addReferences(JsonNode answer, RegistryClient client, Map<String, FileDescriptorProto> files) {
    for (JsonNode reference : answer.path("references")) {
      String name = reference.path("name").asText();
      if (files.containsKey(name)) {
        continue;
      }
      JsonNode part = client.get(RegistryClient.pathOf(reference) + query());
      if (part == null) {
        throw new Unreadable("imports " + name + ", which the registry does not know");
      }
      files.put(name, file(part, name));
      addReferences(part, client, files);
    }
  }

  private static FileDescriptorProto file(JsonNode answer, String name) {
    try {
      byte[] bytes = Base64.getDecoder().decode(answer.path("schema").asText());
      return FileDescriptorProto.parseFrom(bytes).toBuilder().setName(name).build();
    } catch (IllegalArgumentException | InvalidProtocolBufferException problem) {
      throw new Unreadable("is given as text, not as a serialized descriptor");
    }
  }
}
