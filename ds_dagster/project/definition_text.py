"""The statements of a stored definition as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from ds_dagster.errors import DsError
from ds_dagster.project.load import SliceStatement
from ds_dagster.sql.printing import print_select
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.statements import CreateAsSelect, CreateDatabase, CreateSchema, CreateStore, Statement

_LEFT_OUT = (CreateDatabase, CreateSchema, CreateStore)
"""Where a relation is stored is no part of what a query means."""


def definition_lines(pieces: Sequence[SliceStatement]) -> list[str]:
    """The lines of what a query means: the declarations it reads, and its own statement as it was written."""
    shown = (piece.text for piece in pieces if not isinstance(_parsed(piece), _LEFT_OUT))
    return [line for text in shown for line in f"{text};".splitlines()]


def select_text(pieces: Sequence[SliceStatement]) -> str:
    """The SELECT of a CREATE … AS, printed in one form, without the name it fills; empty for other statements, and for
    a definition of a later version, of which no statement is known."""
    statement = _parsed(pieces[-1]) if pieces else None
    return print_select(statement.body) if isinstance(statement, CreateAsSelect) else ""


def _parsed(piece: SliceStatement) -> Statement | None:
    """None where an earlier version wrote a statement that today's grammar has no more."""
    try:
        return parse_statement(piece.text, piece.file)
    except DsError:
        return None
