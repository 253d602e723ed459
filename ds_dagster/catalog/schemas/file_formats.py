"""File formats as value formats: the stores that hold them, and the formats those stores refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_dagster.catalog.relation import Relation, ValueFormat
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
            allowed = ", ".join(able.file_formats if able.rows_only else ("json", "primitive", "avro"))
            raise error(
                "VALUE_FORMAT_OTHER_STORE", span=span, type=kind.name, format=format_, relation=name, allowed=allowed
            )


def inherited_format(format_: ValueFormat, kind: StoreKind) -> ValueFormat:
    """The format of the left-most source if the sink's store can hold it, else JSON."""
    return format_ if _holds(kind, format_) else "json"


def _holds(kind: StoreKind, format_: str) -> bool:
    able = kind.capabilities
    if format_ in FILE_FORMATS or (able.rows_only and format_ != "none"):
        return format_ in able.file_formats
    return True
