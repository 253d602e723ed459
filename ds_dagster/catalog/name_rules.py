"""Rules for names that a kind of store accepts, of entities and of columns of tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error

SHOWN = 60
"""Characters of a name that a message shows."""


@dataclass(frozen=True, slots=True)
class NameRule:
    """Rule for names of a store's entities.

    Attributes:
        words: the rule for people; empty: the store takes any name.
        pattern: regular expression the name matches as a whole; empty for any.
        characters: most characters, 0 for any number.
        bytes: most bytes in UTF-8, 0 for any number.
        reserved: names the store keeps for itself, in lower case.
        folds_case: names that differ in upper and lower case alone are one name.
    """

    words: str = ""
    pattern: str = ""
    characters: int = 0
    bytes: int = 0
    reserved: tuple[str, ...] = ()
    folds_case: bool = False

    def takes(self, name: str) -> bool:
        """Whether the store takes the name."""
        return not (
            (self.pattern and not re.fullmatch(self.pattern, name))
            or (self.characters and len(name) > self.characters)
            or (self.bytes and len(name.encode()) > self.bytes)
            or name.lower() in self.reserved
            or "\0" in name
        )


ANY_NAME = NameRule()
FOLDERS = NameRule(
    "folder names with / between them, none empty, none beginning with . or _, up to 200 characters each and 800 bytes "
    "in all",
    r"(?![._])[^/]{1,200}(/(?![._])[^/]{1,200})*",
    bytes=800,
)
"""Folders of files. File names follow them: S3 allows 1,024 bytes for the whole key, file systems 255 for a name."""

QUERY_NAMES = NameRule(
    "letters, digits, _, - and ., the first a letter, a digit or _, at most 200 characters",
    r"[a-z0-9_][a-z0-9_.-]*",
    characters=200,
)
"""Names of queries are parts of file names, of ids of jobs, of names in Dagster, and words of commands."""


def refused_entity(rule: NameRule, store: str, names: Sequence[str], span: Span) -> DsError | None:
    """ENTITY_NAME_INVALID for the first part of an entity's name that the store does not take, else None."""
    wrong = next((name for name in names if not rule.takes(name)), None)
    if wrong is None:
        return None
    return error("ENTITY_NAME_INVALID", span=span, entity=_shown(wrong), store=store, allowed=rule.words)


def refused_columns(rule: NameRule, kind: str, relation: Relation) -> DsError | None:
    """TARGET_COLUMN_NAME_INVALID with the columns whose names a table of that kind of store cannot have, else None."""
    folded = Counter(column.name.lower() for column in relation.columns)
    wrong = [
        column
        for column in relation.columns
        if not rule.takes(column.name) or (rule.folds_case and folded[column.name.lower()] > 1)
    ]
    if not wrong:
        return None
    return error(
        "TARGET_COLUMN_NAME_INVALID",
        span=wrong[0].span or relation.span,
        relation=str(relation.name),
        type=kind,
        names=[_shown(column.name) for column in wrong],
        allowed=rule.words,
    )


def _shown(name: str) -> str:
    return name if len(name) <= SHOWN else f"{name[:SHOWN]}…"
