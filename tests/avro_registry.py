"""A schema registry in this process: the REST endpoints of Confluent's, over HTTP, with Avro's own compatibility rules,
and the first ones of Protobuf (a number keeps its type) and JSON Schema (a property keeps its type).

Protobuf is kept as it is sent: as a descriptor in base64, or as text.

It counts what it is asked, refuses wrong logins and can be switched off.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.schema import parse
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

Answer = tuple[int, Any]


@dataclass
class AvroRegistry:
    """Schemas by id and by subject; ``login``: user and password it wants; ``down``: it answers 503;
    ``fault``: status and error code of every answer; ``tls``: what it shows and wants of its clients, plain HTTP
    without."""

    login: tuple[str, str] | None = None
    down: bool = False
    fault: tuple[int, int] | None = None
    tls: ssl.SSLContext | None = None
    compatibility: str = "BACKWARD"
    calls: Counter[str] = field(default_factory=Counter)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> AvroRegistry:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> str:
        """Listens on a free port; its URL."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with suppress(ssl.SSLError, ConnectionError):  # of a client that does not get in
                    super().handle()

            def log_message(self, *args: object) -> None:
                return

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                status, found = registry.answer(self.command, self.path, body, self.headers)
                text = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = _answer  # noqa: N815 - names of the base class

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self.url

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http{'s' * (self.tls is not None)}://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def register(self, subject: str, schema: Mapping[str, Any] | str, **more: Any) -> int:
        """Put a schema under a subject whatever the rules say; its id."""
        plain = isinstance(schema, str) and (schema[:1] in '{["' or "schemaType" in more)
        text = schema if isinstance(schema, str) and plain else json.dumps(schema)
        return self._put(subject, {"schema": text, **more})

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return self.calls[path]

    # --- REST

    def answer(self, method: str, path: str, body: dict[str, Any], headers: Any) -> Answer:
        plain = unquote(urlsplit(path).path)
        self.calls[plain] += 1
        if self.down:
            return 503, {"error_code": 50301, "message": "switched off"}
        if self.fault:
            return self.fault[0], {"error_code": self.fault[1], "message": "broken"}
        if self.login and headers.get("Authorization") != "Basic " + _basic(*self.login):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        for wanted, pattern, call in self._routes():
            found = re.fullmatch(pattern, plain)
            if wanted == method and found:
                return call(body, **found.groupdict())
        return 404, {"error_code": 404, "message": f"HTTP 404 Not Found: {method} {plain}"}

    def _routes(self) -> tuple[tuple[str, str, Callable[..., Answer]], ...]:
        return (
            ("GET", r"/schemas/ids/(?P<number>\d+)", self._by_id),
            ("GET", r"/schemas/guids/(?P<guid>[0-9a-f-]+)", self._by_guid),
            ("GET", r"/subjects", lambda body: (200, sorted(self.subjects))),
            ("GET", r"/subjects/(?P<subject>.+)/versions/(?P<version>latest|\d+)", self._version),
            ("POST", r"/compatibility/subjects/(?P<subject>.+)/versions/latest", self._compare),
            ("POST", r"/subjects/(?P<subject>.+)/versions", self._register),
            ("POST", r"/subjects/(?P<subject>.+)", self._look_up),
        )

    def _by_id(self, body: dict[str, Any], number: str) -> Answer:
        found = self.schemas.get(int(number))
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})

    def _by_guid(self, body: dict[str, Any], guid: str) -> Answer:
        found = next((one for id_, one in self.schemas.items() if self.guid(id_) == guid), None)
        return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})

    def guid(self, id_: int) -> str:
        """Of a schema, by its content."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(self.schemas[id_], sort_keys=True)))

    def _version(self, body: dict[str, Any], subject: str, version: str) -> Answer:
        ids = self.subjects.get(subject)
        if not ids:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = len(ids) if version == "latest" else int(version)
        if not 1 <= number <= len(ids):
            return 404, {"error_code": 40402, "message": f"Version {number} not found."}
        return 200, self._shown(subject, number, ids[number - 1])

    def _shown(self, subject: str, number: int, id_: int) -> dict[str, Any]:
        return {"subject": subject, "version": number, "id": id_, "guid": self.guid(id_), **self.schemas[id_]}

    def _register(self, body: dict[str, Any], subject: str) -> Answer:
        kept = {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}
        kept = {name: value for name, value in kept.items() if (name, value) != ("schemaType", "AVRO")}
        problem = self._problem(subject, kept)
        if problem:
            return problem
        id_ = self._put(subject, kept)
        return 200, {"id": id_, "guid": self.guid(id_), **kept}

    def _compare(self, body: dict[str, Any], subject: str) -> Answer:
        problem = self._problem(subject, body)
        return problem if problem and problem[0] != 409 else (200, {"is_compatible": problem is None})

    def _problem(self, subject: str, given: Mapping[str, Any]) -> Answer | None:
        read, compatible = RULES[given.get("schemaType") or "AVRO"]
        try:
            new = read(given["schema"])
        except (AvroException, ValueError, DecodeError) as problem:
            return 422, {"error_code": 42201, "message": f"Invalid schema: {problem}"}
        ids = self.subjects.get(subject, [])
        if self.compatibility == "NONE" or not ids or compatible(new, read(self.schemas[ids[-1]]["schema"])):
            return None
        message = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
        return 409, {"error_code": 409, "message": message}

    def _look_up(self, body: dict[str, Any], subject: str) -> Answer:
        for number, id_ in enumerate(self.subjects.get(subject, []), 1):
            if _same(self.schemas[id_]["schema"], body["schema"]):
                return 200, self._shown(subject, number, id_)
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _put(self, subject: str, kept: dict[str, Any]) -> int:
        with self._lock:
            same = (id_ for id_, found in self.schemas.items() if found == kept)
            id_ = next(same, len(self.schemas) + 1)
            self.schemas[id_] = kept
            if id_ not in self.subjects.setdefault(subject, []):
                self.subjects[subject].append(id_)
            return id_


def _schema(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logical types this library does not know
        return parse(text)


def _avro_compatible(new: Any, old: Any) -> bool:
    result = ReaderWriterCompatibilityChecker().get_compatibility(new, old)
    return result.compatibility is SchemaCompatibilityType.compatible


def _file(text: str) -> Any:
    return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))


def _protobuf_compatible(new: Any, old: Any) -> bool:
    """A number keeps its type, in every message."""
    was = {(m.name, f.number): (f.type, f.label) for m in old.message_type for f in m.field}
    is_ = {(m.name, f.number): (f.type, f.label) for m in new.message_type for f in m.field}
    return all(is_[place] == was[place] for place in was.keys() & is_.keys())


def _json_compatible(new: Any, old: Any) -> bool:
    was, is_ = old.get("properties", {}), new.get("properties", {})
    return all(is_[name].get("type") == was[name].get("type") for name in was.keys() & is_.keys())


def _same(first: str, second: str) -> bool:
    try:
        return bool(json.loads(first) == json.loads(second))
    except ValueError:
        return first == second


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


RULES: Mapping[str, tuple[Callable[[str], Any], Callable[[Any, Any], bool]]] = {
    "AVRO": (_schema, _avro_compatible),
    "PROTOBUF": (_file, _protobuf_compatible),
    "JSON": (json.loads, _json_compatible),
}
"""Type → what reads a schema, and whether (new, old) are compatible."""
