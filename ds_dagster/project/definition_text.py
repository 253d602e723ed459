"""The statements of a stored definition as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.errors import DsError
from ds_dagster.project.load import SliceStatement
from ds_dagster.sql.printing import print_select
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.statements import CreateAsSelect, CreateDatabase, CreateSchema, CreateStore, Statement

_LEFT_OUT = (CreateDatabase, CreateSchema, CreateStore)
"""Statements that are left out: where a relation is stored is not part of a query's meaning."""


def definition_lines(pieces: Sequence[SliceStatement]) -> list[str]:
    """Lines of a query's definition: the declarations it reads, and its own statement as written."""
    shown = (piece.text for piece in pieces if not isinstance(_parsed(piece), _LEFT_OUT))
    return [line for text in shown for line in f"{text};".splitlines()]


def select_text(pieces: Sequence[SliceStatement]) -> str:
    """The SELECT of a CREATE … AS in normalized form, without the relation it fills; empty for other statements, and
    for a definition of another version of the package that does not parse."""
    statement = _parsed(pieces[-1]) if pieces else None
    return print_select(statement.body) if isinstance(statement, CreateAsSelect) else ""


def _parsed(piece: SliceStatement) -> Statement | None:
    """The parsed statement; None if another version wrote it and today's grammar does not accept it."""
    try:
        return parse_statement(piece.text, piece.file)
    except DsError:
        return None
