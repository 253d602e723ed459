"""Copies of a registry's schemas in the project: the columns of relations without a column list.

A project compiles offline, without reading a registry. ``ds schemas`` writes the newest version of each subject into
``schemas/<registry>/<subject>.…`` of the project; the copy is reviewed and versioned like the SQL.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schemas.formats import FORMATS, SchemaFormat
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error

FOLDER = "schemas"


def recorded_path(root: Path, registry: str, subject: str, format_: SchemaFormat) -> Path:
    """Path of the copy of a subject; characters that file names cannot have become ``_``."""
    return root / FOLDER / _safe(registry) / f"{_safe(subject)}{format_.suffix}"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text).lstrip(".") or "_"


def recorded_text(path: Path) -> str | None:
    """Text of the copy, None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def recorded_columns(
    root: Path, registry: RegistryDefinition, subject: str, format_: SchemaFormat, relation: str, span: Span
) -> tuple[Column, ...]:
    """The columns of a relation without a column list, each of which may be NULL: a writer may leave a field out later.

    Raises:
        UserError: SCHEMA_NOT_RECORDED, SCHEMA_FIELD_WITHOUT_TYPE; AVRO_SCHEMA_UNREADABLE and the like of other formats.
    """
    text = recorded_text(recorded_path(root, registry.name, subject, format_))
    if text is None:
        raise error("SCHEMA_NOT_RECORDED", span=span, relation=relation, registry=registry.name, subject=subject)
    return columns_of(format_.fields(format_.recorded(text)), subject, span)


def columns_of(fields: Iterable[tuple[str, DataType | None, str]], subject: str, span: Span) -> tuple[Column, ...]:
    """Columns of a schema's fields.

    Raises:
        UserError: SCHEMA_FIELD_WITHOUT_TYPE.
    """
    columns = []
    for name, type_, shown in fields:
        if type_ is None:
            raise error("SCHEMA_FIELD_WITHOUT_TYPE", span=span, subject=subject, field=name, type=shown)
        columns.append(Column(name, type_, span=span))
    return tuple(columns)


def recorded_digest(root: Path) -> bytes:
    """Digest of all copies."""
    digest = hashlib.sha256()
    folder = root / FOLDER
    suffixes = tuple(format_.suffix for format_ in FORMATS.values())
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.name.endswith(suffixes) and path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()
