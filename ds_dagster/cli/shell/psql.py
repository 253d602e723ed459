"""Commands of psql that ``ds sql`` takes: ``\\d``, ``\\l``, ``\\timing``."""

from __future__ import annotations

PSQL = {
    **dict.fromkeys((r"\d", r"\dt", r"\dv", r"\dm"), "LIST RELATIONS;"),
    r"\l": "LIST DATABASES;",
    r"\dn": "LIST SCHEMAS;",
    r"\df": "LIST FUNCTIONS;",
}
"""Command of psql → statement; ``\\d name`` describes a relation."""
TIMING = r"\timing"


def timing_after(word: str, is_timed: bool) -> bool | None:
    """Whether times are shown after ``\\timing``, ``\\timing on`` or ``\\timing off``; None for any other text."""
    return {TIMING: not is_timed, f"{TIMING} on": True, f"{TIMING} off": False}.get(" ".join(word.split()))


def as_statement(text: str) -> str:
    """The statement for a command of psql; other texts unchanged."""
    command, _, name = text.strip().rstrip(";").strip().partition(" ")
    if command == r"\d" and name:
        return f"DESCRIBE RELATION {name.strip()};"
    return PSQL.get(command, text) if not name else text
