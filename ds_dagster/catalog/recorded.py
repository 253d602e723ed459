"""Copies of a registry's schemas in the project: what gives a relation without a column list its columns.

A project compiles offline, so the columns cannot be asked for. ``ds schemas`` writes the newest version of each subject
into ``schemas/<registry>/<subject>.avsc`` beside the SQL; the copy is reviewed and kept with it like the SQL itself.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ds_dagster.catalog.avro import parse_avro, shown, sql_type
from ds_dagster.catalog.relation import Column
from ds_dagster.catalog.schema_registry import RegistryDefinition
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error

FOLDER = "schemas"


def recorded_path(root: Path, registry: str, subject: str) -> Path:
    """Where the copy of a subject stands; characters that are no part of file names become ``_``."""
    return root / FOLDER / _safe(registry) / f"{_safe(subject)}.avsc"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text).lstrip(".") or "_"


def recorded_text(path: Path) -> str | None:
    """The copy, None without one."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def recorded_columns(
    root: Path, registry: RegistryDefinition, subject: str, relation: str, span: Span
) -> tuple[Column, ...]:
    """The columns of a relation without a column list, each of which may be NULL: a writer may leave a field out later.

    Raises:
        UserError: SCHEMA_NOT_RECORDED, AVRO_SCHEMA_UNREADABLE, AVRO_FIELD_WITHOUT_TYPE.
    """
    text = recorded_text(recorded_path(root, registry.name, subject))
    if text is None:
        raise error("SCHEMA_NOT_RECORDED", span=span, relation=relation, registry=registry.name, subject=subject)
    avro = parse_avro(text)
    if not isinstance(avro, dict) or avro["type"] != "record":
        raise error("AVRO_FIELD_WITHOUT_TYPE", span=span, subject=subject, field="(all)", type=shown(avro))
    found = []
    for one in avro["fields"]:
        type_ = sql_type(one["type"])
        if type_ is None:
            type_text = shown(one["type"])
            raise error("AVRO_FIELD_WITHOUT_TYPE", span=span, subject=subject, field=one["name"], type=type_text)
        found.append(Column(one["name"], type_[0], span=span))
    return tuple(found)


def recorded_digest(root: Path) -> bytes:
    """Changes when any copy does."""
    digest = hashlib.sha256()
    folder = root / FOLDER
    for path in sorted(folder.rglob("*.avsc")) if folder.is_dir() else ():
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()
