"""File formats as value formats: the stores that hold them, and the formats those stores refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_dagster.catalog.properties.table import RECORD_FORMATS
from ds_dagster.catalog.relation import SCHEMA_FORMAT_NAMES, Relation, ValueFormat
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

FILE_FORMATS = ("csv", "parquet")
"""Formats of whole files, not of records."""


def check_files(relation: Relation, kind: StoreKind, span: Span | None) -> None:
    """Refuse file formats (CSV, Parquet) outside of files, and changelogs and record formats in files.

    Raises:
        UserError: VALUE_FORMAT_OTHER_STORE. UnsupportedError: FILES_HOLD_NO_CHANGELOG.
    """
    able = kind.capabilities
    name = str(relation.name)
    if relation.kind not in ("stream", "changelog"):
        return
    if able.rows_only and relation.kind == "changelog":
        raise error("FILES_HOLD_NO_CHANGELOG", span=relation.span, relation=name, store=relation.store)
    for format_ in (relation.value_format, relation.key.format):
        if not _holds(kind, format_) and not (format_ == "avro" and not able.avro):  # check_schemas reports it
            allowed = ", ".join(_held(kind))
            raise error(
                "VALUE_FORMAT_OTHER_STORE", span=span, type=kind.name, format=format_, relation=name, allowed=allowed
            )


def _held(kind: StoreKind) -> tuple[str, ...]:
    able = kind.capabilities
    if able.rows_only:
        return able.file_formats
    return tuple(name for name in RECORD_FORMATS if able.avro or name not in SCHEMA_FORMAT_NAMES)


def inherited_format(format_: ValueFormat, kind: StoreKind) -> ValueFormat:
    """The format of the left-most source if the sink's store can hold it, else JSON."""
    return format_ if _holds(kind, format_) else "json"


def _holds(kind: StoreKind, format_: str) -> bool:
    able = kind.capabilities
    if format_ in FILE_FORMATS or (able.rows_only and format_ != "none"):
        return format_ in able.file_formats
    return True
