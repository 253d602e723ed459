package dsdagster.registry;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.OperatorFault;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.regex.Pattern;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLSocketFactory;
import org.apache.kafka.common.KafkaException;

/** The two look-ups in a Confluent registry that decoding needs. Every call has a time limit. */
public final class RegistryClient {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final String ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json";
  private static final int CONNECT_MILLIS = 5_000;
  private static final int READ_MILLIS = 10_000;
  private static final int ROUNDS = 2;

  /** Alerts of RFC 8446 section 6.2 that a server sends about a client's certificate, as the JDK calls them. */
  private static final Pattern REFUSED_CERTIFICATE =
      Pattern.compile("alert: (bad_certificate|certificate_|unknown_ca|unsupported_certificate|access_denied)");

  private final RegistrySettings settings;
  private SSLSocketFactory sockets;

  public RegistryClient(RegistrySettings settings) {
    this.settings = settings;
  }

  /** The JSON of a path; null if the registry answers that it does not exist. */
  public JsonNode get(String path) {
    String failure = "it has no address";
    for (int round = 0; round < ROUNDS; round++) {
      for (String address : settings.addresses) {
        try {
          return answer(address, path);
        } catch (IOException problem) {
          failure = address + ": " + problem.getClass().getSimpleName() + " " + problem.getMessage();
        }
      }
    }
    boolean isRefused = REFUSED_CERTIFICATE.matcher(failure).find();
    throw fault(isRefused ? "REGISTRY_CERTIFICATE_REFUSED" : "REGISTRY_UNREACHABLE", failure);
  }

  /** Path of a schema that another schema refers to. */
  public static String pathOf(JsonNode reference) {
    String subject = URLEncoder.encode(reference.path("subject").asText(), StandardCharsets.UTF_8).replace("+", "%20");
    return "/subjects/" + subject + "/versions/" + reference.path("version").asInt();
  }

  private JsonNode answer(String address, String path) throws IOException {
    HttpURLConnection call = open(new URL(address.replaceAll("/+$", "") + path));
    try {
      int status = call.getResponseCode();
      if (status == 200) {
        try (InputStream body = call.getInputStream()) {
          return MAPPER.readTree(body);
        }
      }
      if (status == 404) {
        return null;
      }
      if (status == 401 || status == 403) {
        throw fault("REGISTRY_LOGIN_REFUSED", "status " + status);
      }
      throw new IOException("status " + status);
    } finally {
      call.disconnect();
    }
  }

  private HttpURLConnection open(URL url) throws IOException {
    HttpURLConnection call = (HttpURLConnection) url.openConnection();
    call.setConnectTimeout(CONNECT_MILLIS);
    call.setReadTimeout(READ_MILLIS);
    call.setInstanceFollowRedirects(false); // the login may only be sent to the declared address
    call.setRequestProperty("Accept", ACCEPTED);
    if (!settings.user.isEmpty()) {
      byte[] login = (settings.user + ":" + settings.password).getBytes(StandardCharsets.UTF_8);
      call.setRequestProperty("Authorization", "Basic " + Base64.getEncoder().encodeToString(login));
    }
    if (call instanceof HttpsURLConnection && settings.hasCertificates()) {
      ((HttpsURLConnection) call).setSSLSocketFactory(sockets());
    }
    return call;
  }

  private synchronized SSLSocketFactory sockets() {
    if (sockets == null) {
      try {
        sockets = ClientSockets.of(settings);
      } catch (KafkaException problem) {
        throw fault("REGISTRY_CERTIFICATE_UNREADABLE", problem.toString());
      }
    }
    return sockets;
  }

  private OperatorFault fault(String condition, String detail) {
    String user = settings.user.isEmpty() ? "nobody" : settings.user;
    String address = String.join(",", settings.addresses);
    String known = String.valueOf(detail);
    return OperatorFault.of(
        condition, Map.of("registry", settings.name, "address", address, "user", user, "detail", known));
  }
}
