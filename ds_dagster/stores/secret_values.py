"""Values of declared secrets: read by the process that connects, cached briefly, never shown.

Environment and files are read each time. AWS Secrets Manager is called through boto3 with the usual chain of
credentials (environment, profile, role). Its answer is cached in this process for ``KEEP_SECONDS``, so that fifty jobs
that start together send one request, and a start after that reads a rotated value. After a refused login, the cache is
cleared (:meth:`SecretBook.changed`).
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ds_dagster.aws_session import aws_client
from ds_dagster.catalog.properties.secret_types import SecretType
from ds_dagster.catalog.properties.values import read_value_file, resolve
from ds_dagster.catalog.secret import SecretDefinition
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean

KEEP_SECONDS = 60.0
CALL_SECONDS = 10
MISSING = ("ResourceNotFoundException", "InvalidRequestException", "InvalidParameterException", "ValidationException")
DENIED = (
    "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException",
    "InvalidClientTokenId", "DecryptionFailure", "NotAuthorized", "OptInRequired", "IncompleteSignature",
)  # fmt: skip
"""Codes of AWS that a retry does not change."""
NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "NoRegionError", "ProfileNotFound", "ValueError")
"""Exceptions if botocore finds no credentials or region, and for an invalid address."""
LOGIN: Mapping[str, str] = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "profile_name": "AWS_PROFILE",
    "region_name": "AWS_DEFAULT_REGION",
}
"""Field of :class:`ds_dagster.aws_session.AwsLogin` → environment variable."""


@dataclass(frozen=True, slots=True)
class _SecretRequest:
    """A request for one secret: its definition, its resolved properties, the environment, and who uses it."""

    secret: SecretDefinition
    values: Mapping[str, str]
    environment: Mapping[str, str]
    used_by: str

    def missing(self, where: str, reason: str) -> DsError:
        return error("SECRET_MISSING", secret=self.secret.name, where=where, reason=reason, used_by=self.used_by)

    def denied(self, where: str, reason: str) -> DsError:
        return error("SECRET_DENIED", secret=self.secret.name, where=where, reason=reason, used_by=self.used_by)

    def unreachable(self, where: str, detail: str) -> DsError:
        name, used_by = self.secret.name, self.used_by
        return error("SECRET_UNREACHABLE", detail=detail, secret=name, where=where, used_by=used_by)


class SecretBook:
    """Reads the secrets of one project, by folded name; variables are looked up in ``environment``. Safe from several
    threads."""

    def __init__(self, secrets: Mapping[str, SecretDefinition], environment: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._environment = environment
        self._given: dict[str, tuple[str, bytes]] = {}

    def __call__(self, name: str, used_by: str) -> str:
        """The value of a secret.

        Raises:
            UserError: UNKNOWN_SECRET, SECRET_MISSING, SECRET_DENIED, ENVIRONMENT_REFERENCE_MISSING.
            ExternalError: SECRET_UNREACHABLE.
        """
        text = self._read(name, used_by, self._environment)
        self._given.setdefault(name, (used_by, _digest(text)))  # the first value: its user may still have it
        return text

    def changed(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Names of the secrets whose value differs from the value this book gave first; clears the cache before. A
        value that cannot be read counts as unchanged: the next start reports the reason.

        Args:
            environment: the present one.
        """
        forget()
        return tuple(name for name, entry in self._given.items() if self._differs(name, entry, environment))

    def _differs(self, name: str, entry: tuple[str, bytes], environment: Mapping[str, str]) -> bool:
        used_by, digest = entry
        try:
            return _digest(self._read(name, used_by, environment)) != digest
        except DsError:
            return False

    def _read(self, name: str, used_by: str, environment: Mapping[str, str]) -> str:
        secret = self._secrets.get(name)
        if secret is None:
            raise error("UNKNOWN_SECRET", name=name, nearest=did_you_mean(name, self._secrets))
        values = {key: resolve(value, environment, f"secret {name}") for key, value in secret.properties.items()}
        return READERS[secret.type](_SecretRequest(secret, values, environment, used_by))

    def __repr__(self) -> str:
        return f"SecretBook({', '.join(self._secrets)})"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


# sources of values


def _from_environment(request: _SecretRequest) -> str:
    name = request.values["variable"]
    value = request.environment.get(name)
    if not value:
        raise request.missing(f"environment {name}", "the variable is not set" if value is None else "it is empty")
    return value


def _from_file(request: _SecretRequest) -> str:
    path = request.values["secret_file"]
    text = read_value_file(path, f"secret {request.secret.name}").rstrip("\r\n")
    if not text:
        raise request.missing(f"file {path}", "it is empty")
    return text


def _from_statement(request: _SecretRequest) -> str:
    return request.values["secret_string"]


def _from_aws(request: _SecretRequest) -> str:
    """The secret's text, or one field of it."""
    where = f"AWS Secrets Manager {request.values['secret_id']}"
    asks = {name: value for name, value in request.values.items() if name not in ("json_key", "description")}
    text = _KEPT.get(tuple(sorted(asks.items())), lambda: _ask_aws(request, where))
    key = request.values.get("json_key")
    return text if key is None else _field(request, where, text, key)


def _field(request: _SecretRequest, where: str, text: str, key: str) -> str:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise request.missing(where, "it is not a valid JSON object")
    if key not in fields:
        raise request.missing(where, f"it has no field {key}")
    return fields[key] if isinstance(fields[key], str) else json.dumps(fields[key])


def _ask_aws(request: _SecretRequest, where: str) -> str:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    values = request.values
    limits = Config(connect_timeout=CALL_SECONDS, read_timeout=CALL_SECONDS, retries={"max_attempts": 2})
    place = {"endpoint_url": values.get("aws.endpoint_url"), "config": limits}
    version = {"VersionStage": values["version_stage"]} if "version_stage" in values else {}
    try:
        client = aws_client("secretsmanager", {**_login(request), **place})
        try:
            answer = client.get_secret_value(SecretId=values["secret_id"], **version)
        finally:
            client.close()
    except ClientError as problem:
        code = str(problem.response.get("Error", {}).get("Code", ""))
        refused = request.missing if code in MISSING else request.denied if code in DENIED else request.unreachable
        raise refused(where, code) from None
    except (BotoCoreError, ValueError) as problem:
        name = type(problem).__name__
        if name in NO_CREDENTIALS:
            raise request.denied(where, str(problem)) from None
        raise request.unreachable(where, f"{name} {problem}") from None
    return _text_of(request, where, answer)


def _login(request: _SecretRequest) -> Mapping[str, str | None]:
    """Settings of the usual chain of credentials; variables of the project's ``.env`` count as environment."""
    login = {name: request.environment.get(variable) for name, variable in LOGIN.items()}
    return login | {"region_name": request.values.get("access_region") or login["region_name"]}


def _text_of(request: _SecretRequest, where: str, answer: Mapping[str, object]) -> str:
    text, binary = answer.get("SecretString"), answer.get("SecretBinary")
    if isinstance(text, str):
        return text
    try:
        return bytes(binary).decode("utf-8") if isinstance(binary, bytes | bytearray) else ""
    except UnicodeDecodeError:
        raise request.missing(where, "it is binary and not UTF-8 text") from None


READERS: Mapping[SecretType, Callable[[_SecretRequest], str]] = {
    "environment": _from_environment,
    "file": _from_file,
    "generic_string": _from_statement,
    "aws_secrets_manager": _from_aws,
}


_Key = tuple[tuple[str, str], ...]


class _Kept:
    """A cache for answers of services, each for :data:`KEEP_SECONDS`."""

    def __init__(self) -> None:
        self._locks: defaultdict[_Key, threading.Lock] = defaultdict(threading.Lock)
        self._answers: dict[_Key, tuple[float, str]] = {}

    def get(self, key: _Key, ask: Callable[[], str]) -> str:
        """One thread sends the request, others wait for its answer; failures are not cached."""
        with self._locks[key]:
            until, text = self._answers.get(key, (0.0, ""))
            if time.monotonic() >= until:
                text = ask()
                self._answers[key] = (time.monotonic() + KEEP_SECONDS, text)
            return text

    def clear(self) -> None:
        """Delete all answers."""
        self._answers.clear()


_KEPT = _Kept()


def forget() -> None:
    """Delete all cached values, so that the next reads send requests."""
    _KEPT.clear()
