"""Rows with typed columns, as a table for people and as a document for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ds_dagster.cli.output import table
from ds_dagster.datatypes import DataType

NUMBERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})


def show_rows(columns: Sequence[tuple[str, DataType]], rows: Sequence[Mapping[str, object]]) -> None:
    """A table; numbers are right-aligned."""
    from ds_dagster.questions.values import cell

    headers = [name for name, _ in columns]
    numbers = [i for i, (_, type_) in enumerate(columns) if str(type_).split("(")[0] in NUMBERS]
    table(headers, [[cell(row[name]) for name in headers] for row in rows], right=numbers)


def rows_document(columns: Sequence[tuple[str, DataType]], rows: Sequence[object]) -> dict[str, object]:
    """``{"columns": [{"name", "type"}], "rows": […]}``."""
    return {"columns": [{"name": name, "type": str(type_)} for name, type_ in columns], "rows": list(rows)}
