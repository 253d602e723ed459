"""Descriptor sources: files of compiled Protobuf messages in the project, for records without a registry.

``CREATE DESCRIPTOR_SOURCE name WITH ('file' = 'shop.desc')``; the file is what ``protoc --include_imports
--descriptor_set_out=shop.desc shop.proto`` writes, relative to the project. ``'value.descriptor.name'`` and
``'key.descriptor.name'`` name a message by its full name, prefixed by the source's name where two sources have it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ds_dagster.catalog.properties.spec import PropertyIndex
from ds_dagster.catalog.properties.values import PropertyValue, path_in
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Column, Descriptor
from ds_dagster.catalog.schemas import protobuf
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.settings import Settings
from ds_dagster.sql.printing import print_statement
from ds_dagster.sql.statements import CreateDescriptorSource, Origin, Property, WrittenName

_SOURCE = re.compile(r"create\s+descriptor_source", re.IGNORECASE)
_FILE = re.compile(r"""(["'])file\1\s*=\s*(["'])@?(?P<path>[^"']*)\2""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DescriptorSource:
    """CREATE DESCRIPTOR_SOURCE after its file was read.

    Attributes:
        name: folded.
        file: absolute path.
        written: the path as it is written.
        messages: full names.
        span: of the name.
    """

    name: str
    file: str
    written: str
    messages: tuple[str, ...]
    span: Span


Sources = Mapping[str, DescriptorSource | None]
"""Descriptor sources by folded name; None for a refused statement."""


def declare_sources(
    statements: Iterable[CreateDescriptorSource], settings: Settings, index: PropertyIndex
) -> tuple[Sources, Sequence[Diagnostic]]:
    """All descriptor sources of a project, each name once (DUPLICATE_DESCRIPTOR_SOURCE)."""
    findings = Findings()
    sources: dict[str, DescriptorSource | None] = {}
    spans: dict[str, Span] = {}
    for statement in statements:
        name, span = str(statement.name), statement.name.span
        if name in sources:
            if not statement.if_not_exists:
                findings.add(error("DUPLICATE_DESCRIPTOR_SOURCE", span=span, name=name), spans[name])
            continue
        spans[name] = span
        pulled = index.pull(statement.properties, "descriptor_source")
        findings.extend(pulled.diagnostics)
        sources[name] = findings.collect(partial(_source, name, span, pulled.values, settings))
    return sources, findings.diagnostics


def source_texts(names: Iterable[str], sources: Sources) -> Iterator[tuple[str, Span]]:
    """(CREATE DESCRIPTOR_SOURCE statement, span of its name) for sources by name; a file is named, not included."""
    for source in filter(None, (sources[name] for name in names)):
        span = source.span
        file = Property("file", source.written, "string", span, span)
        written = WrittenName((source.name,), span)
        yield print_statement(CreateDescriptorSource(origin=Origin(span, ""), name=written, properties=(file,))), span


def _source(name: str, span: Span, values: Mapping[str, PropertyValue], settings: Settings) -> DescriptorSource:
    written = values.get("file")
    if written is None:
        raise error("DESCRIPTOR_SOURCE_WITHOUT_FILE", span=span, name=name)
    path = str(path_in(settings.root, written))
    try:
        types = protobuf.Types.of(protobuf.read_set(file_content(path)))
    except DsError as problem:
        reason = str(problem.params["reason"])
        raise error("DESCRIPTOR_FILE_INVALID", span=written.span, file=str(written.value), reason=reason) from problem
    return DescriptorSource(name, path, str(written.value), types.names(), span)


def file_content(path: str) -> bytes:
    """The content of a file of descriptors.

    Raises:
        UserError: DESCRIPTOR_FILE_INVALID.
    """
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        reason = str(problem.strerror or problem)
        raise error("DESCRIPTOR_FILE_INVALID", file=path, reason=reason) from problem


def descriptor_of(name: str, value: PropertyValue | None, sources: Sources) -> Descriptor | None:
    """The message that a property names, None where it is not set.

    Args:
        name: of the property, for messages.
        value: of the property.
        sources: of the project.

    Raises:
        UserError: UNKNOWN_DESCRIPTOR with the nearest names, DESCRIPTOR_AMBIGUOUS, DESCRIPTOR_SOURCE_REFUSED.
    """
    if value is None:
        return None
    wanted = str(value.value)
    readable = [source for source in sources.values() if source is not None]
    matches = [
        Descriptor(source.name, message, source.file)
        for source in readable
        for message in source.messages
        if wanted in (message, f"{source.name}.{message}")
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        places = ", ".join(f"{match.source}.{match.message}" for match in matches)
        raise error("DESCRIPTOR_AMBIGUOUS", span=value.span, name=name, value=wanted, places=places)
    refused = [source for source in sources if sources[source] is None]
    if refused:
        raise error("DESCRIPTOR_SOURCE_REFUSED", span=value.span, name=refused[0])
    messages = [message for source in readable for message in source.messages]
    nearest = did_you_mean(wanted, messages)
    raise error("UNKNOWN_DESCRIPTOR", span=value.span, name=name, value=wanted, nearest=nearest)


def check_message(descriptor: Descriptor | None, columns: Sequence[Column], span: Span | None) -> None:
    """Refuse columns that cannot be written into fields of the message, and required fields without a column.

    Raises:
        UserError: PROTOBUF_FIELD_MISSING, PROTOBUF_FIELD_TYPE, PROTOBUF_FIELD_REQUIRED, DESCRIPTOR_FILE_INVALID.
    """
    if descriptor is None:
        return
    check_names(descriptor, columns, span)
    fields, types = _fields(descriptor)
    for column in columns:
        field = fields[column.name]
        if not protobuf.fits(column.type, field, types):
            params = {"message": descriptor.message, "name": column.name, "field": protobuf.shown(field, types)}
            raise error("PROTOBUF_FIELD_TYPE", span=column.span or span, type=column.type, **params)
    needed = [name for name, field in fields.items() if field.label == protobuf.REQUIRED]
    lacking = [name for name in needed if name not in {column.name for column in columns}]
    if lacking:
        raise error("PROTOBUF_FIELD_REQUIRED", span=span, message=descriptor.message, names=", ".join(lacking))


def check_names(descriptor: Descriptor, columns: Sequence[Column], span: Span | None) -> None:
    """Refuse columns for which the message has no field.

    Raises:
        UserError: PROTOBUF_FIELD_MISSING with the nearest names, DESCRIPTOR_FILE_INVALID.
    """
    fields, _ = _fields(descriptor)
    for column in columns:
        if column.name not in fields:
            params = {"message": descriptor.message, "name": column.name}
            nearest = did_you_mean(column.name, list(fields))
            raise error("PROTOBUF_FIELD_MISSING", span=column.span or span, nearest=nearest, **params)


def _fields(descriptor: Descriptor) -> tuple[Mapping[str, protobuf.Proto], protobuf.Types]:
    types = protobuf.Types.of(protobuf.read_set(file_content(descriptor.file)))
    return {field.name: field for field in types.messages[f".{descriptor.message}"].field}, types


def descriptors_digest(root: Path, texts: Iterable[tuple[str, str]]) -> bytes:
    """Digest of the files of descriptors that a project's SQL names."""
    digest = hashlib.sha256()
    for _, text in texts:
        for match in _FILE.finditer(text) if _SOURCE.search(text) else ():
            path = root / match["path"]
            content = path.read_bytes() if path.is_file() else b""
            digest.update(match["path"].encode() + b"\0" + content + b"\0")
    return digest.digest()
