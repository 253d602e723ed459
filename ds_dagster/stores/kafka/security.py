"""Login and encryption of a Kafka store's clients: one declaration, spelled for Java clients (Spark's source, our sink,
the engine's clock) and for librdkafka (control, ``ds print``, a user's own assets)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ds_dagster.catalog.io_spec import Options
from ds_dagster.catalog.properties.spec import split_names
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.stores.options import flag, make_options, missing, word

HASH_FUNCTION, PROTOCOL = "kafka.sasl.hash_function", "security.protocol"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
USER = (("username", "kafka.sasl.username"), ("password", "kafka.sasl.password"))
OAUTH = (
    ("clientId", "kafka.sasl.oauth.client_id"),
    ("clientSecret", "kafka.sasl.oauth.client_secret"),
    ("scope", "kafka.sasl.oauth.scope"),
)
MSK = (("awsRoleArn", "kafka.msk.iam_role_arn"), ("awsStsRegion", "kafka.msk.aws_region"))
OAUTH_EXTENSIONS = "kafka.sasl.oauth.extensions"
TOKEN_URL = "kafka.sasl.oauth.token_endpoint_url"


@dataclass(frozen=True, slots=True)
class Login:
    """One value of ``kafka.sasl.hash_function``.

    Attributes:
        mechanism: SASL mechanism of Java clients and of librdkafka.
        module: login module of Java clients.
        module_options: (option of the module, property of the store).
        required: properties that a login needs.
        allowed: further properties that belong to it.
        handler: (Java client option, class) of its callback handler; empty to use the client's own.
    """

    mechanism: str
    module: str
    module_options: tuple[tuple[str, str], ...]
    required: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    handler: tuple[str, str] = ("", "")


_USER_NAMES = tuple(name for _, name in USER)
LOGINS: Mapping[str, Login] = MappingProxyType(
    {
        "plain": Login("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule", USER, _USER_NAMES),
        "sha256": Login("SCRAM-SHA-256", SCRAM_MODULE, USER, _USER_NAMES),
        "sha512": Login("SCRAM-SHA-512", SCRAM_MODULE, USER, _USER_NAMES),
        "oauthbearer": Login(
            "OAUTHBEARER",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            OAUTH,
            (TOKEN_URL, "kafka.sasl.oauth.client_id", "kafka.sasl.oauth.client_secret"),
            ("kafka.sasl.oauth.scope", OAUTH_EXTENSIONS),
            ("kafka.sasl.login.callback.handler.class", OAUTH_HANDLER),
        ),
        "aws_msk_iam": Login(
            "AWS_MSK_IAM",
            "software.amazon.msk.auth.iam.IAMLoginModule",
            MSK,
            (),
            ("kafka.msk.iam_role_arn", "kafka.msk.aws_region"),
            ("kafka.sasl.client.callback.handler.class", MSK_HANDLER),
        ),
    }
)
LOGIN_PROPERTIES = tuple(dict.fromkeys(name for login in LOGINS.values() for name in (*login.required, *login.allowed)))
CERTIFICATES: Mapping[str, str] = MappingProxyType(
    {
        "tls.ca_cert_file": "tls.ca_cert",
        "tls.client.cert_file": "tls.client.cert",
        "tls.client.key_file": "tls.client.key",
    }
)
"""Property with a file → property with its content as text."""
TLS_PROPERTIES = (
    *CERTIFICATES,
    *CERTIFICATES.values(),
    "tls.client.key_password",
    "tls.verify_server_hostname",
    "tls.cipher_suites",
    "tls.protocols",
)
PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CIPHER_SUITES: Mapping[str, str] = MappingProxyType(
    {
        "TLS_AES_128_GCM_SHA256": "",
        "TLS_AES_256_GCM_SHA384": "",
        "TLS_CHACHA20_POLY1305_SHA256": "",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
        "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    }
)
"""Registered name (Java) → OpenSSL's name; empty for suites of TLS 1.3, which OpenSSL always offers (RFC 8446 B.4)."""


def security_protocol(store: StoreDefinition) -> str:
    """Kafka's ``security.protocol``: the written one, else with TLS if a property of TLS or a login is given, unless
    ``tls.disabled`` is true. So a password is never sent unencrypted by default."""
    if PROTOCOL in store.properties:
        return word(store, PROTOCOL).upper()
    login = word(store, HASH_FUNCTION) in LOGINS
    disabled = flag(store, "tls.disabled")
    configured = any(name in store.properties for name in TLS_PROPERTIES)
    tls = not disabled if disabled is not None else configured or login
    return ("SASL_SSL" if tls else "SASL_PLAINTEXT") if login else ("SSL" if tls else "PLAINTEXT")


# --- checks -----------------------------------------------------------------------------------------------------------


def check_security(store: StoreDefinition) -> Iterator[Diagnostic]:
    """Check that the login is complete, has no property of another login, and TLS is not contradictory."""
    for check in (_protocol, _login_complete, _login_alone, _tls_wanted, _certificates, _words):
        yield from check(store)


def contradiction(store: StoreDefinition, first: str, second: str, reason: str, fix: str) -> Diagnostic:
    """STORE_PROPERTIES_CONTRADICT."""
    span = store.properties[first].span or store.span
    return error(
        "STORE_PROPERTIES_CONTRADICT", span=span, store=store.name, first=first, second=second, reason=reason, fix=fix
    ).diagnostic()


def _protocol(store: StoreDefinition) -> Iterator[Diagnostic]:
    """Check that Kafka's own setting for login and TLS agrees with the other properties."""
    protocol = word(store, PROTOCOL)
    if not protocol:
        return
    login = word(store, HASH_FUNCTION) in LOGINS
    if protocol.startswith("sasl_") and not login:
        yield missing(store, HASH_FUNCTION, f"{PROTOCOL} is {protocol.upper()}", "'PLAIN'")
    elif login and not protocol.startswith("sasl_"):
        fix = f"write '{PROTOCOL}' = 'SASL_{protocol.upper()}', or remove it"
        yield contradiction(store, PROTOCOL, HASH_FUNCTION, "it has no login", fix)
    disabled, tls = flag(store, "tls.disabled"), protocol.endswith("ssl")
    if disabled is tls:
        yield contradiction(store, PROTOCOL, "tls.disabled", "only one of them turns TLS on", "remove one of the two")
    for name in TLS_PROPERTIES if not tls else ():
        if name in store.properties:
            yield contradiction(store, PROTOCOL, name, "TLS is off", "remove one of the two")


def _login_complete(store: StoreDefinition) -> Iterator[Diagnostic]:
    name = word(store, HASH_FUNCTION)
    login = LOGINS.get(name)
    for needed in login.required if login else ():
        if needed not in store.properties:
            yield missing(store, needed, f"{HASH_FUNCTION} is {name.upper()}", "'${NAME}'")
    if name == "aws_msk_iam" and not msk_region(store):
        yield missing(store, "kafka.msk.aws_region", "tokens are signed for one region", "'us-east-1'")


def _login_alone(store: StoreDefinition) -> Iterator[Diagnostic]:
    name = word(store, HASH_FUNCTION)
    login = LOGINS.get(name)
    own = (*login.required, *login.allowed) if login else ()
    for other in LOGIN_PROPERTIES:
        if other not in store.properties or other in own:
            continue
        reason = f"a login by {name.upper()} does not use it" if login else "a login needs a hash function"
        users = " or ".join(n.upper() for n, login in LOGINS.items() if other in (*login.required, *login.allowed))
        yield contradiction(store, other, HASH_FUNCTION, reason, f"write '{HASH_FUNCTION}' = {users}, or remove it")


def _tls_wanted(store: StoreDefinition) -> Iterator[Diagnostic]:
    if not flag(store, "tls.disabled"):
        return
    for name in TLS_PROPERTIES:
        if name in store.properties:
            yield contradiction(store, "tls.disabled", name, "TLS is off", "remove one of the two")
    if word(store, HASH_FUNCTION) == "aws_msk_iam":
        yield contradiction(store, "tls.disabled", HASH_FUNCTION, "MSK takes IAM over TLS only", "remove tls.disabled")


def _certificates(store: StoreDefinition) -> Iterator[Diagnostic]:
    properties = store.properties
    for file, text in CERTIFICATES.items():
        if file in properties and text in properties:
            yield contradiction(store, file, text, "both give the same certificate or key", "remove one of the two")
    certificate, key = (_given(store, f"tls.client.{part}_file") for part in ("cert", "key"))
    if (certificate is None) != (key is None):
        name, other = ("tls.client.key_file", "certificate") if key is None else ("tls.client.cert_file", "key")
        yield missing(store, name, f"the client's {other} is given", "'certs/client.pem'")
    if "tls.client.key_password" in properties and key is None:
        yield missing(store, "tls.client.key_file", "its password is given", "'certs/client.key'")


def _words(store: StoreDefinition) -> Iterator[Diagnostic]:
    for name, allowed in (("tls.protocols", PROTOCOLS), ("tls.cipher_suites", tuple(CIPHER_SUITES))):
        value = store.properties.get(name)
        wrong = [part.strip() for part in split_names(value) if part.strip() not in allowed]
        if value is not None and wrong:
            span = value.span or store.span
            problem = error("PROPERTY_INVALID", span=span, name=name, value=wrong[0], allowed=", ".join(allowed))
            yield problem.diagnostic()
    extensions = store.properties.get(OAUTH_EXTENSIONS)
    if extensions is not None and not all(name and value for name, value in _pairs(extensions)):
        yield error(
            "PROPERTY_INVALID",
            span=extensions.span or store.span,
            name=OAUTH_EXTENSIONS,
            value=extensions.value,
            allowed="name=value pairs with commas between them",
        ).diagnostic()


# --- Java clients -----------------------------------------------------------------------------------------------------


def java_connection(store: StoreDefinition) -> Options:
    """Connection options as Java clients spell them, with Spark's prefix ``kafka.``."""
    return make_options(
        {
            "kafka.bootstrap.servers": store.properties["uris"],
            "kafka.security.protocol": security_protocol(store),
            **_java_tls(store),
            **_java_login(store),
        }
    )


def _java_tls(store: StoreDefinition) -> Mapping[str, PropertyValue | str | None]:
    options: dict[str, PropertyValue | str | None] = {
        "kafka.ssl.truststore.location": store.properties.get("tls.ca_cert_file"),
        "kafka.ssl.truststore.certificates": store.properties.get("tls.ca_cert"),
        "kafka.ssl.enabled.protocols": _joined(store, "tls.protocols", ","),
        "kafka.ssl.cipher.suites": _joined(store, "tls.cipher_suites", ","),
    }
    if _given(store, "tls.ca_cert_file") is not None:
        options["kafka.ssl.truststore.type"] = "PEM"
    certificate, key = _content(store, "tls.client.cert_file"), _content(store, "tls.client.key_file", secret=True)
    if certificate is not None and key is not None:
        options |= {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.certificate.chain": certificate,
            "kafka.ssl.keystore.key": key,
            "kafka.ssl.key.password": store.properties.get("tls.client.key_password"),
        }
    if flag(store, "tls.verify_server_hostname") is False:
        options["kafka.ssl.endpoint.identification.algorithm"] = ""
    return options


def _java_login(store: StoreDefinition) -> Mapping[str, PropertyValue | str | None]:
    login = LOGINS.get(word(store, HASH_FUNCTION))
    if login is None:
        return {}
    option, handler = login.handler
    options: dict[str, PropertyValue | str | None] = {
        "kafka.sasl.mechanism": login.mechanism,
        "kafka.sasl.jaas.config": _jaas(store, login),
        "kafka.sasl.oauthbearer.token.endpoint.url": store.properties.get(TOKEN_URL),
    }
    return {**options, option: handler} if option else options


def _jaas(store: StoreDefinition, login: Login) -> PropertyValue:
    """The login line of Java clients; values are inserted when it is resolved."""
    entries = [(name, store.properties[prop]) for name, prop in login.module_options if prop in store.properties]
    if OAUTH_EXTENSIONS in store.properties:
        pairs = _pairs(store.properties[OAUTH_EXTENSIONS])
        entries += [(f"extension_{name}", PropertyValue(value)) for name, value in pairs]
    parts = [PropertyValue(f"{login.module} required")]
    for name, value in entries:
        quoted = PropertyValue(value.value, value.secret, None, value.file, value.entry, value.parts, quoted=True)
        parts += [PropertyValue(f' {name}="'), quoted, PropertyValue('"')]
    return PropertyValue("", secret=True, parts=(*parts, PropertyValue(";")))


# --- librdkafka -------------------------------------------------------------------------------------------------------


def client_connection(store: StoreDefinition) -> Options:
    """Connection options as librdkafka spells them. MSK's tokens come from a callback (``msk.py``); librdkafka has no
    option for TLS versions."""
    properties = store.properties
    login = LOGINS.get(word(store, HASH_FUNCTION))
    suites = [CIPHER_SUITES.get(name.strip(), "") for name in split_names(properties.get("tls.cipher_suites"))]
    signed_in = login is not None and login.required == _USER_NAMES
    return make_options(
        {
            "bootstrap.servers": properties["uris"],
            "security.protocol": security_protocol(store).lower(),
            "ssl.ca.location": properties.get("tls.ca_cert_file"),
            "ssl.ca.pem": properties.get("tls.ca_cert"),
            "ssl.certificate.location": properties.get("tls.client.cert_file"),
            "ssl.certificate.pem": properties.get("tls.client.cert"),
            "ssl.key.location": properties.get("tls.client.key_file"),
            "ssl.key.pem": properties.get("tls.client.key"),
            "ssl.key.password": properties.get("tls.client.key_password"),
            "ssl.cipher.suites": ":".join(filter(None, suites)) or None,
            "ssl.endpoint.identification.algorithm": "none"
            if flag(store, "tls.verify_server_hostname") is False
            else None,
            "sasl.mechanisms": _CLIENT_MECHANISMS.get(login.mechanism, login.mechanism) if login else None,
            "sasl.username": properties["kafka.sasl.username"] if signed_in else None,
            "sasl.password": properties["kafka.sasl.password"] if signed_in else None,
            **(_client_oauth(store) if login and login.mechanism == "OAUTHBEARER" else {}),
        }
    )


_CLIENT_MECHANISMS: Mapping[str, str] = MappingProxyType({"AWS_MSK_IAM": "OAUTHBEARER"})
"""Login mechanism → mechanism of librdkafka: MSK accepts the same signed token as OAUTHBEARER."""


def _client_oauth(store: StoreDefinition) -> Mapping[str, PropertyValue | str | None]:
    properties = store.properties
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": properties[TOKEN_URL],
        "sasl.oauthbearer.client.id": properties["kafka.sasl.oauth.client_id"],
        "sasl.oauthbearer.client.secret": properties["kafka.sasl.oauth.client_secret"],
        "sasl.oauthbearer.scope": properties.get("kafka.sasl.oauth.scope"),
        "sasl.oauthbearer.extensions": properties.get(OAUTH_EXTENSIONS),
    }


# --- values -----------------------------------------------------------------------------------------------------------


def msk_region(store: StoreDefinition) -> str:
    """``kafka.msk.aws_region``, else the region in ``access_region`` or in MSK's own host names, else empty."""
    written = word(store, "kafka.msk.aws_region") or word(store, "access_region").rpartition(" ")[2]
    if written:
        return written
    host = word(store, "uris").partition(",")[0].partition(":")[0]
    parts = host.split(".")
    return parts[-3] if host.endswith(".amazonaws.com") and len(parts) > 3 else ""


def _given(store: StoreDefinition, file: str) -> PropertyValue | None:
    """The property with a certificate or key, as a file or as text; None without one."""
    return store.properties.get(file) or store.properties.get(CERTIFICATES[file])


def _content(store: StoreDefinition, file: str, *, secret: bool = False) -> PropertyValue | None:
    """The text of a certificate or key; a file is read when the value is resolved."""
    path = store.properties.get(file)
    if path is not None:
        return PropertyValue("", secret=secret, file=str(path.value))
    return store.properties.get(CERTIFICATES[file])


def _joined(store: StoreDefinition, name: str, separator: str) -> str | None:
    return separator.join(part.strip() for part in split_names(store.properties.get(name))) or None


def _pairs(value: PropertyValue) -> list[tuple[str, str]]:
    return [(name.strip(), text.strip()) for name, _, text in (p.partition("=") for p in str(value.value).split(","))]
