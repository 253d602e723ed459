"""Questions over Delta tables, answered by DataFusion inside delta-rs: it streams the files, and skips columns and row
groups that are not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds_dagster.errors import error
from ds_dagster.redaction import redact
from ds_dagster.stores.delta.connection import CONTROL_LIMITS, DETAIL_CHARACTERS, LakeAddress

QUESTION_TEXTS = (
    "Cast error",
    "Error during planning",
    "Schema error",
    "Divide by zero",
    "Arithmetic overflow",
    "Parser error",
)
"""Parts of DataFusion's messages about a question, not about files."""


def select(address: LakeAddress, tables: Mapping[str, Any], text: str) -> list[tuple[Any, ...]]:
    """Rows of a SELECT.

    Args:
        address: of the store.
        tables: name in the text → its table, as :meth:`LakeAddress.table` gives it.
        text: in Postgres' dialect, as far as DataFusion has it.

    Raises:
        UserError: QUESTION_FAILED, STORE_DRIVER_MISSING. DsError: STORE_….
    """
    import pyarrow

    builder = address.deltalake().QueryBuilder()
    for name, table in tables.items():
        builder.register(name, table)
    try:
        answer = pyarrow.table(builder.execute(text))
    except address.errors() as problem:
        text = redact(str(problem))[:DETAIL_CHARACTERS]
        if any(part in text for part in QUESTION_TEXTS):
            raise error("QUESTION_FAILED", reason=text) from None
        raise address.failure(problem, "answer a query") from None
    return list(zip(*(column.to_pylist() for column in answer.columns), strict=True))


def open_table(address: LakeAddress, place: str) -> Any | None:
    """The table at a place, None when there is none.

    Raises:
        DsError: STORE_….
    """
    try:
        return address.table(place, CONTROL_LIMITS)
    except address.errors() as problem:
        raise address.failure(problem, "look at its tables") from None
