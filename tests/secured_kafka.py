"""A real broker as people run it in earnest: TLS, five ways to log in, client certificates, ACLs; and whoever issues
its certificates and tokens. One process of the project's own broker jars, three listeners beside the plain one.

``login``: SASL_SSL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER); ``mutual``: client certificates; ``clear``:
SASL without TLS. The plain listener is the broker's own and its super user's.
"""

from __future__ import annotations

import base64
import http.server
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ds_dagster.local import kafka
from ds_dagster.local.ports import HOST, assign_ports
from ds_dagster.local.processes import ServerCommand
from ds_dagster.local.server import Home, ServerKind, start_server, stop_server
from tests.stores.certificates import Authority

USER = "ana"
PASSWORD = 'MARKED-pass "quoted" \\ back; $1'
"""Every sign that a careless spelling would trip over."""
POOR, POOR_PASSWORD = "nobody", "MARKED-nothing-is-allowed"
CLIENT, CLIENT_SECRET = "oauth-client", "MARKED-oauth-secret"
KEY_PASSWORD = "MARKED-key-password"
CERTIFIED = "certified"
AUDIENCE, ISSUER = "kafka", "test-issuer"
LISTENERS = ("login", "mutual", "clear")


# --- certificates -----------------------------------------------------------------------------------------------------


def _older(certificate: Path, key: Path) -> tuple[Path, Path]:
    """Lock a key in the older form that Java's clients open (they refuse PBES2, which is today's default)."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which locks a key in the older form, is not installed")
    locked = key.with_suffix(".locked.key")
    how = ["-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{KEY_PASSWORD}"]
    subprocess.run(["openssl", "pkcs8", *how, "-in", key, "-out", locked], check=True)
    return certificate, locked


# --- tokens -----------------------------------------------------------------------------------------------------------


class TokenEndpoint:
    """An OIDC token endpoint: signed tokens for the client that knows the secret."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.asked: list[Mapping[str, list[str]]] = []
        endpoint = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append(parse_qs(body))
                status, told = endpoint.answer(self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(told).encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        self.server = http.server.ThreadingHTTPServer((HOST, 0), Answer)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server.server_address[1]}/token"

    def answer(self, authorization: str) -> tuple[int, Mapping[str, Any]]:
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if given != f"{CLIENT}:{CLIENT_SECRET}":
            return 401, {"error": "invalid_client", "error_description": "unknown client"}
        return 200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": 600}

    def token(self) -> str:
        now = int(time.time())
        claims = {"sub": CLIENT, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600, "scope": "kafka"}
        head = _base64(json.dumps({"alg": "RS256", "kid": "k1", "typ": "JWT"}).encode())
        signed = f"{head}.{_base64(json.dumps(claims).encode())}"
        return f"{signed}.{_base64(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def key_set(self) -> str:
        """The public key as the broker reads it (JWKS)."""
        numbers = self.key.public_key().public_numbers()
        n, e = (_base64(value.to_bytes((value.bit_length() + 7) // 8, "big")) for value in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "n": n, "e": e}]})

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# --- the broker -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecuredKafka:
    """Addresses, certificates and how a store says each login."""

    ports: Mapping[str, int]
    authority: Authority
    stranger: Authority
    tokens: TokenEndpoint
    certificate: tuple[Path, Path]
    locked: tuple[Path, Path]
    restart: Callable[[], None]

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.ports[f'kafka_{listener}' if listener != 'plain' else 'kafka']}"

    @property
    def plain(self) -> str:
        return self.address("plain")

    def admin(self) -> AdminClient:
        """The super user."""
        return AdminClient({"bootstrap.servers": self.plain, "log_level": 0})

    def user(self, hash_function: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
        """Store properties of a login by user and password."""
        return {
            "uris": self.address("login"),
            "tls.ca_cert_file": str(self.authority.file),
            "kafka.sasl.hash_function": hash_function,
            "kafka.sasl.username": user,
            "kafka.sasl.password": password,
        }

    def clear(self) -> dict[str, str]:
        """A login without TLS, asked for."""
        without = {name: value for name, value in self.user("sha512").items() if not name.startswith("tls.")}
        return {**without, "uris": self.address("clear"), "tls.disabled": "true"}

    def oauth(self, secret: str = CLIENT_SECRET) -> dict[str, str]:
        return {
            "uris": self.address("login"),
            "tls.ca_cert_file": str(self.authority.file),
            "kafka.sasl.hash_function": "oauthbearer",
            "kafka.sasl.oauth.token_endpoint_url": self.tokens.url,
            "kafka.sasl.oauth.client_id": CLIENT,
            "kafka.sasl.oauth.client_secret": secret,
            "kafka.sasl.oauth.scope": "kafka",
            "kafka.sasl.oauth.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        }

    def mutual(self) -> dict[str, str]:
        certificate, key = self.certificate
        return {
            "uris": self.address("mutual"),
            "tls.ca_cert_file": str(self.authority.file),
            "tls.client.cert_file": str(certificate),
            "tls.client.key_file": str(key),
        }

    def mutual_by_text(self) -> dict[str, str]:
        """The same without files, the key locked."""
        certificate, key = self.locked
        return {
            "uris": self.address("mutual"),
            "tls.ca_cert": self.authority.file.read_text(),
            "tls.client.cert": certificate.read_text(),
            "tls.client.key": key.read_text(),
            "tls.client.key_password": KEY_PASSWORD,
            "tls.protocols": "TLSv1.2",
            "tls.cipher_suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        }

    def logins(self) -> Mapping[str, dict[str, str]]:
        """Every way in, by a name for tests."""
        return {
            "plain": self.user("plain"),
            "sha256": self.user("sha256"),
            "sha512": self.user("sha512"),
            "oauth": self.oauth(),
            "mutual": self.mutual(),
            "mutual by text": self.mutual_by_text(),
            "clear": self.clear(),
        }

    def allow(self, *grants: tuple[str, ResourceType, str, AclOperation]) -> None:
        """Grants of (principal, type, name, ``prefix*`` or ``*``, operation)."""
        bindings = [
            AclBinding(kind, *_pattern(name), f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for user, kind, name, operation in grants
        ]
        admin = self.admin()
        for future in admin.create_acls(bindings).values():
            future.result(20)


def _pattern(name: str) -> tuple[str, ResourcePatternType]:
    if len(name) > 1 and name.endswith("*"):
        return name[:-1], ResourcePatternType.PREFIXED
    return name, ResourcePatternType.LITERAL


LOGIN_NAMES = ("plain", "sha256", "sha512", "oauth", "mutual", "mutual by text", "clear")


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Start it, with users and grants; stopped at the end."""
    folder = folder.resolve()
    (folder / "certificates").mkdir(parents=True)
    authority = Authority(folder / "certificates")
    stranger = Authority(folder / "certificates", "another authority")
    tokens = TokenEndpoint()
    (folder / "jwks.json").write_text(tokens.key_set())
    certificate, key = authority.issue("broker")
    (folder / "certificates" / "server.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
    names = ("kafka", kafka.CONTROLLER, *(f"kafka_{name}" for name in LISTENERS))

    def prepare(home: Home, progress: Callable[[str], None]) -> ServerCommand:
        launch = kafka.prepare(home, progress)
        _secure(home, folder, authority)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{folder / 'jwks.json'}"
        return replace(launch, argv=(launch.argv[0], allowed, *launch.argv[1:]))

    kind = ServerKind("kafka", names, prepare, kafka.ailment)
    home = Home(folder, "kafka", assign_ports(folder, names))

    def restart() -> None:
        stop_server(kind, home)
        start_server(kind, home, lambda _line: None)

    try:
        start_server(kind, home, lambda _line: None)
        locked = _older(*authority.issue("locked"))
        made = SecuredKafka(home.ports, authority, stranger, tokens, authority.issue(CERTIFIED), locked, restart)
        _people(made)
        yield made
    finally:
        stop_server(kind, home)
        tokens.close()


def _secure(home: Home, folder: Path, authority: Authority) -> None:
    """Listeners, users and ACLs in server.properties."""
    path = home.folder / "server.properties"
    table = dict(line.split("=", 1) for line in path.read_text().splitlines())
    listeners = {"LOGIN": "SASL_SSL", "MUTUAL": "SSL", "CLEAR": "SASL_PLAINTEXT"}
    added = [f"{name}://{HOST}:{home.ports[f'kafka_{name.lower()}']}" for name in listeners]
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **listeners}
    table["listeners"] = ",".join((table["listeners"], *added))
    table["advertised.listeners"] = ",".join((table["advertised.listeners"], *added))
    table |= {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "certificates" / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
    }
    bearer = "listener.name.login.oauthbearer"
    oauth = "org.apache.kafka.common.security.oauthbearer"
    for listener, mechanisms in (
        ("login", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"),
        ("clear", "SCRAM-SHA-512"),
    ):
        head = f"listener.name.{listener}"
        table[f"{head}.sasl.enabled.mechanisms"] = mechanisms
        for scram in ("256", "512"):
            module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            table[f"{head}.scram-sha-{scram}.sasl.jaas.config"] = module
    users = " ".join(f'user_{name}="{_escaped(word)}"' for name, word in ((USER, PASSWORD), (POOR, POOR_PASSWORD)))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    table |= {
        "listener.name.login.plain.sasl.jaas.config": f"{module} required {users};",
        f"{bearer}.sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
        f"{bearer}.sasl.server.callback.handler.class": f"{oauth}.OAuthBearerValidatorCallbackHandler",
        f"{bearer}.sasl.oauthbearer.jwks.endpoint.url": f"file://{folder / 'jwks.json'}",
        f"{bearer}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{bearer}.sasl.oauthbearer.expected.issuer": ISSUER,
    }
    path.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in table.items()))


def _escaped(text: str) -> str:
    """As a value inside the quotes of a login line."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _people(broker: SecuredKafka) -> None:
    """Users of SCRAM and what everybody but :data:`POOR` may do."""
    info = {m: ScramCredentialInfo(m, 4096) for m in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)}
    admin = broker.admin()
    for name, word in ((USER, PASSWORD), (POOR, POOR_PASSWORD)):
        for one in info.values():
            change = UserScramCredentialUpsertion(name, one, word.encode())
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result(20)
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    people = (USER, CLIENT, CERTIFIED, "locked")
    broker.allow(*((user, kind, "*", AclOperation.ALL) for user in people for kind in kinds))
