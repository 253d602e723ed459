"""A Confluent schema registry through Confluent's own client: newest schema of a subject, registration.

Only for requests that are made once per query. Ids in records are looked up where records are decoded (in the JVM).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ds_dagster.catalog.io_spec import RegistrySpec, Resolver
from ds_dagster.errors import DsError, error
from ds_dagster.stores.tls import REFUSED_CERTIFICATE

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

T = TypeVar("T")
CALL_SECONDS = 10
FORMS: Mapping[str, str | None] = MappingProxyType({"AVRO": None, "PROTOBUF": "serialized", "JSON": None})
"""Type of schemas → the requested form; Protobuf schemas come compiled, so that no compiler is needed."""
CLIENT_FILES: Mapping[str, str] = MappingProxyType(
    {"authorities": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
)
"""Option of a :class:`RegistrySpec` → setting of Confluent's client, both a PEM file."""
SUBJECT_MISSING = (40401, 40402, 40408)
"""Error codes: no such subject, no such version, subject without compatibility."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject; ``schema`` as :mod:`ds_dagster.catalog.schemas.formats` holds it, ``has_references``:
    whether it refers to other schemas."""

    id: int
    version: int
    schema: str
    has_references: bool = False


class SchemaRegistry:
    """A connection; no request is sent before the first call, and each call has a timeout.

    Every call raises: ExternalError REGISTRY_UNREACHABLE, REGISTRY_CALL_FAILED; UserError REGISTRY_LOGIN_REFUSED,
    REGISTRY_CERTIFICATE_UNREADABLE, REGISTRY_CERTIFICATE_REFUSED.
    """

    def __init__(self, spec: RegistrySpec, resolve: Resolver) -> None:
        self.name = spec.name
        values = {name: resolve(value) for name, value in spec.options.items()}
        self.address = ",".join(part.strip() for part in values["addresses"].split(",") if part.strip())
        self.user = values.get("user", "nobody")
        self._password = values.get("password", "")
        self._files = {name: values[name] for name in CLIENT_FILES if name in values}
        self._key_password = values.get("key_password", "")
        self._made: SchemaRegistryClient | None = None

    def latest(self, subject: str, type_: str = "AVRO") -> RegisteredSchema | None:
        """The newest version of a subject, None without one.

        Args:
            subject: name of the subject.
            type_: required type of its schemas: AVRO, PROTOBUF or JSON.

        Raises:
            UserError: SCHEMA_OF_OTHER_TYPE, PROTOBUF_SCHEMA_AS_TEXT.
        """
        form = FORMS[type_]
        return self._read(subject, type_, lambda client: client.get_latest_version(subject, fmt=form))

    def version(self, subject: str, number: int, type_: str = "AVRO") -> RegisteredSchema | None:
        """One version of a subject, None if it does not exist; otherwise as :meth:`latest`."""
        form = FORMS[type_]
        return self._read(subject, type_, lambda client: client.get_version(subject, number, True, form))

    def _read(self, subject: str, type_: str, call: Callable[[SchemaRegistryClient], Any]) -> RegisteredSchema | None:
        registered: Any = self._asked("read a schema", call)
        if registered is None:
            return None
        if registered.schema.schema_type != type_:
            params = {"registry": self.name, "subject": subject, "type": registered.schema.schema_type, "wanted": type_}
            raise error("SCHEMA_OF_OTHER_TYPE", **params)
        text = registered.schema.schema_str
        if type_ == "PROTOBUF":
            text = protobuf_set(subject, registered.schema, self._version)
            if text is None:
                raise error("PROTOBUF_SCHEMA_AS_TEXT", registry=self.name, subject=subject)
        return RegisteredSchema(registered.schema_id, registered.version, text, bool(registered.schema.references))

    def type_of(self, subject: str) -> str | None:
        """Type of the newest schema of a subject: AVRO, PROTOBUF or JSON; None without a schema."""
        registered: Any = self._asked("read a schema", lambda client: client.get_latest_version(subject))
        return None if registered is None else str(registered.schema.schema_type)

    def _version(self, subject: str, version: int) -> Any:
        """A schema that another schema imports; None if it does not exist."""

        def ask(client: SchemaRegistryClient) -> Any:
            return client.get_version(subject, version, True, FORMS["PROTOBUF"])

        schema_version = self._asked("read a schema", ask)
        return None if schema_version is None else schema_version.schema

    def is_compatible(self, subject: str, schema: str, type_: str = "AVRO") -> bool:
        """Whether a schema may become the next version of a subject; True if the subject has no version."""
        sent = _sent(schema, type_)
        return self._asked("compare schemas", lambda client: client.test_compatibility(subject, sent)) is not False

    def register(self, subject: str, schema: str, difference: Callable[[], str], type_: str = "AVRO") -> int:
        """The id of a schema under a subject, registered if it is new there.

        Args:
            subject: name of the subject.
            schema: as :mod:`ds_dagster.catalog.schemas.formats` holds it.
            difference: gives the difference from the newest version, for the message.
            type_: AVRO, PROTOBUF or JSON.

        Raises:
            UserError: SCHEMA_INCOMPATIBLE, SCHEMA_INVALID.
        """
        sent = _sent(schema, type_)

        def put(client: SchemaRegistryClient) -> int:
            return client.register_schema(subject, sent)

        version = self._asked("register a schema", put, subject, difference)
        if version is None:
            raise self._fault("REGISTRY_CALL_FAILED", "the subject does not exist", action="register a schema")
        return version

    def _asked(
        self,
        action: str,
        call: Callable[[SchemaRegistryClient], T],
        subject: str = "",
        difference: Callable[[], str] = str,
    ) -> T | None:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return call(self._client())
        except SchemaRegistryError as problem:
            if problem.error_code in SUBJECT_MISSING:
                return None
            raise self._refused(problem, action, subject, difference) from problem
        except _network_failures() as problem:
            refused = REFUSED_CERTIFICATE.search(str(problem))
            condition = "REGISTRY_CERTIFICATE_REFUSED" if refused else "REGISTRY_UNREACHABLE"
            raise self._fault(condition, f"{type(problem).__name__} {problem}") from problem

    def _refused(self, problem: Any, action: str, subject: str, difference: Callable[[], str]) -> DsError:
        status = problem.http_status_code
        if status in (401, 403):
            return self._fault("REGISTRY_LOGIN_REFUSED", f"status {status}")
        if status == 409:
            return error("SCHEMA_INCOMPATIBLE", registry=self.name, subject=subject, difference=difference())
        detail = str(problem.error_message)[:300]
        if status == 422 and subject:
            return error("SCHEMA_INVALID", registry=self.name, subject=subject, detail=detail)
        if status in (408, 429, 502, 503, 504):
            return self._fault("REGISTRY_UNREACHABLE", f"status {status}")
        return self._fault("REGISTRY_CALL_FAILED", f"status {status}: {detail}", action=action)

    def _fault(self, condition: str, detail: str, action: str = "") -> DsError:
        return error(condition, registry=self.name, address=self.address, user=self.user, detail=detail, action=action)

    def close(self) -> None:
        """Release its connections; never raises."""
        if self._made is not None:
            client: Any = self._made
            client.__exit__()
            self._made = None

    def _client(self) -> SchemaRegistryClient:
        if self._made is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient

            settings: dict[str, Any] = {"url": self.address, "timeout": CALL_SECONDS, "max.retries": 1}
            if self._password:
                settings["basic.auth.user.info"] = f"{self.user}:{self._password}"
            settings |= {CLIENT_FILES[name]: path for name, path in self._files.items()}
            if "key" in self._files:
                settings["ssl.key.password"] = self._key_password  # without one, OpenSSL prompts at the terminal
            try:
                self._made = SchemaRegistryClient(settings)
            except OSError as problem:  # ssl.SSLError is one
                raise error("REGISTRY_CERTIFICATE_UNREADABLE", registry=self.name, detail=str(problem)) from problem
        return self._made


def _sent(schema: str, type_: str) -> Any:
    """A schema in the form for registration. Protobuf as Confluent's clients send it: one file, its descriptor in
    base64."""
    from confluent_kafka.schema_registry import Schema

    if type_ != "PROTOBUF":
        return Schema(schema, type_)
    from ds_dagster.catalog.schemas.protobuf import read_text

    file = read_text(schema).file[-1]
    return Schema(base64.b64encode(file.SerializeToString(deterministic=True)).decode("ascii"), type_)


def protobuf_set(name: str, schema: Any, version: Callable[[str, int], Any]) -> str | None:
    """A file with the files it refers to; None if the registry gives one of them as text.

    Args:
        name: of the file.
        schema: of Confluent's client, requested as serialized descriptor.
        version: (subject, version) → such a schema.

    Raises:
        UserError: PROTOBUF_SCHEMA_UNREADABLE.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    from ds_dagster.catalog.schemas.protobuf import set_text

    files: dict[str, Any] = {}

    def add(own: str, schema: Any) -> None:
        for reference in schema.references or ():
            if reference.name not in files:
                part = version(reference.subject, reference.version)
                if part is None:
                    reason = f"it imports {reference.name}, which does not exist"
                    raise error("PROTOBUF_SCHEMA_UNREADABLE", reason=reason)
                add(reference.name, part)
        file = FileDescriptorProto()
        file.ParseFromString(base64.b64decode(schema.schema_str, validate=True))
        file.name = own
        files[own] = file

    try:
        add(name, schema)
    except (binascii.Error, DecodeError):
        return None
    return set_text(list(files.values()))


def _network_failures() -> tuple[type[Exception], ...]:
    """Exceptions of Confluent's client if no server answers: those of its HTTP library, httpx or httpx2, depending on
    its version."""
    modules = (import_module(name) for name in ("httpx", "httpx2") if find_spec(name) is not None)
    return (OSError, *(module.HTTPError for module in modules))
