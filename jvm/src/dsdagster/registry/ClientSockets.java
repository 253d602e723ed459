package dsdagster.registry;

import java.util.HashMap;
import java.util.Map;
import javax.net.ssl.SSLSocketFactory;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/** TLS sockets with certificates and keys in PEM, which Kafka's client library reads as for a Kafka store. */
final class ClientSockets {
  private static final ConfigDef DEFINITION = new ConfigDef();

  static {
    SslConfigs.addClientSslSupport(DEFINITION);
  }

  private ClientSockets() {}

  /**
   * A factory that trusts only {@code authorities} (if empty, all authorities that the JVM trusts) and sends the
   * client's certificate if there is one.
   *
   * @throws KafkaException a text is not PEM, or its key cannot be opened
   */
  static SSLSocketFactory of(RegistrySettings settings) {
    Map<String, Object> written = new HashMap<>();
    if (!settings.authorities.isEmpty()) {
      written.put(SslConfigs.SSL_TRUSTSTORE_TYPE_CONFIG, DefaultSslEngineFactory.PEM_TYPE);
      written.put(SslConfigs.SSL_TRUSTSTORE_CERTIFICATES_CONFIG, settings.authorities);
    }
    if (!settings.key.isEmpty()) {
      written.put(SslConfigs.SSL_KEYSTORE_TYPE_CONFIG, DefaultSslEngineFactory.PEM_TYPE);
      written.put(SslConfigs.SSL_KEYSTORE_CERTIFICATE_CHAIN_CONFIG, settings.certificate);
      written.put(SslConfigs.SSL_KEYSTORE_KEY_CONFIG, settings.key);
    }
    if (!settings.keyPassword.isEmpty()) {
      written.put(SslConfigs.SSL_KEY_PASSWORD_CONFIG, settings.keyPassword);
    }
    DefaultSslEngineFactory factory = new DefaultSslEngineFactory();
    factory.configure(DEFINITION.parse(written));
    return factory.sslContext().getSocketFactory();
  }
}
