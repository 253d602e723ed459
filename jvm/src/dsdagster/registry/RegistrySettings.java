package dsdagster.registry;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** Addresses and login of a schema registry. Sent to tasks inside the plan; its text form shows no secrets. */
public final class RegistrySettings implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public final String name;
  final List<String> addresses;
  final String user;
  final String password;
  final String authorities;
  final String certificate;
  final String key;
  final String keyPassword;
  private final String run;

  private RegistrySettings(JsonNode read) {
    name = read.path("name").asText();
    addresses = new ArrayList<>();
    read.path("addresses").forEach(address -> addresses.add(address.asText()));
    user = read.path("user").asText("");
    password = read.path("password").asText("");
    authorities = read.path("authorities").asText("");
    certificate = read.path("certificate").asText("");
    key = read.path("key").asText("");
    keyPassword = read.path("key_password").asText("");
    run = read.path("run").asText("");
  }

  /**
   * Settings from JSON.
   *
   * @param json {@code name}, {@code addresses} (list), {@code user}, {@code password}, {@code authorities},
   *     {@code certificate} and {@code key} (PEM texts), {@code key_password}, {@code run} (schemas are cached per run)
   */
  public static RegistrySettings of(String json) {
    try {
      return new RegistrySettings(MAPPER.readTree(json));
    } catch (JsonProcessingException failure) {
      throw new IllegalArgumentException("settings of a schema registry that are no JSON"); // the text has secrets
    }
  }

  /** Whether own authorities or a client certificate are set; otherwise the JVM's defaults apply. */
  boolean hasCertificates() {
    return !authorities.isEmpty() || !key.isEmpty();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RegistrySettings && parts().equals(((RegistrySettings) other).parts());
  }

  @Override
  public int hashCode() {
    return parts().hashCode();
  }

  private List<Object> parts() {
    return List.of(name, addresses, user, password, authorities, certificate, key, keyPassword, run);
  }

  @Override
  public String toString() {
    return "schema registry " + Objects.toString(name);
  }
}
