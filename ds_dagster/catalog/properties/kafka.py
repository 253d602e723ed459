"""WITH properties of stores that speak Kafka's protocol: login and services. Kafka's own names are aliases."""

from __future__ import annotations

from ds_dagster.catalog.properties.spec import PropertySpec

KAFKA: tuple[PropertySpec, ...] = (
    PropertySpec(
        "kafka.profile",
        "word",
        ("store",),
        "service whose usual login and TLS are the defaults; CONFLUENT_CLOUD for type CONFLUENT_KAFKA",
        choices=("none", "msk", "confluent_cloud", "redpanda"),
    ),
    PropertySpec(
        "kafka.sasl.hash_function",
        "word",
        ("store",),
        "how to log in to the brokers; Kafka's own names of mechanisms are accepted, too (SCRAM-SHA-512)",
        choices=("none", "plain", "sha256", "sha512", "oauthbearer", "aws_msk_iam"),
        aliases=("sasl.mechanism", "sasl.mechanisms"),
        choice_aliases=(("scram-sha-256", "sha256"), ("scram-sha-512", "sha512")),
    ),
    PropertySpec(
        "security.protocol",
        "word",
        ("store",),
        "Kafka's own word for login and TLS; default: what `kafka.sasl.hash_function` and `tls.disabled` say",
        choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    ),
    PropertySpec(
        "sasl.jaas.config",
        "text",
        ("store",),
        "login of Java clients",
        secret=True,
        not_yet="write 'sasl.mechanism', 'sasl.username' and 'sasl.password'",
    ),
    PropertySpec("kafka.sasl.username", "text", ("store",), "user of the brokers", aliases=("sasl.username",)),
    PropertySpec(
        "kafka.sasl.password", "text", ("store",), "password of that user", secret=True, aliases=("sasl.password",)
    ),
    PropertySpec(
        "kafka.sasl.oauth.token_endpoint_url",
        "text",
        ("store",),
        "where OAUTHBEARER gets its tokens (OIDC)",
        aliases=("sasl.oauthbearer.token.endpoint.url",),
    ),
    PropertySpec(
        "kafka.sasl.oauth.client_id",
        "text",
        ("store",),
        "id of the client that requests tokens",
        aliases=("sasl.oauthbearer.client.id",),
    ),
    PropertySpec(
        "kafka.sasl.oauth.client_secret",
        "text",
        ("store",),
        "secret of that client",
        secret=True,
        aliases=("sasl.oauthbearer.client.secret",),
    ),
    PropertySpec("kafka.sasl.oauth.scope", "text", ("store",), "scope to request", aliases=("sasl.oauthbearer.scope",)),
    PropertySpec(
        "kafka.sasl.oauth.extensions",
        "text",
        ("store",),
        "SASL extensions, name=value with commas between them (logicalCluster, identityPoolId of Confluent Cloud)",
    ),
    PropertySpec("kafka.msk.iam_role_arn", "text", ("store",), "role to assume for AWS_MSK_IAM; default: the engine's"),
    PropertySpec(
        "kafka.msk.aws_region", "text", ("store",), "region of MSK; default: the one in access_region or in uris"
    ),
)
