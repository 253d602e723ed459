"""Names of things: folding, qualification, nearest match, spelling that is safe outside SQL."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class QualifiedName:
    """``database.schema.name``, each part already folded (unquoted parts are lower case)."""

    database: str
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.schema}.{self.name}"

    @property
    def parts(self) -> tuple[str, str, str]:
        """The asset key, in this order."""
        return (self.database, self.schema, self.name)

    @classmethod
    def parse(cls, text: str, database: str = "", schema: str = "") -> QualifiedName:
        """``a.b.c``, ``b.c`` or ``c`` with the missing parts given; parts are taken as folded already."""
        parts = text.split(".")
        filled = [database, schema, ""][: 3 - len(parts)] + parts
        return cls(*filled)


def fold(identifier: str, *, quoted: bool = False) -> str:
    """Fold an identifier as the dialect does: unquoted to lower case, quoted as written."""
    return identifier if quoted else identifier.lower()


def is_address(text: str) -> bool:
    """Whether a text that should be a path is an address, such as ``s3a://bucket/folder``."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text) is not None


def nearest(name: str, candidates: Iterable[str], count: int = 3, cutoff: float = 0.5) -> tuple[str, ...]:
    """The closest known names, best first; compares without case."""
    by_fold = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.lower(), list(by_fold), n=count, cutoff=cutoff)
    return tuple(by_fold[key] for key in matches)


def meant(word: str, candidates: Iterable[str], shortest: int = 3) -> str:
    """The keyword that a misspelt word probably means, or empty. A keyword matches if it has the same letters in
    another order or, from ``shortest`` letters on, if it has one letter more, one less or one changed."""
    near = [candidate for candidate in candidates if candidate != word and _is_nearly(word, candidate, shortest)]
    return max(near, key=lambda candidate: difflib.SequenceMatcher(None, word, candidate).ratio(), default="")


def _is_nearly(word: str, candidate: str, shortest: int) -> bool:
    if sorted(word) == sorted(candidate):
        return True
    blocks = difflib.SequenceMatcher(None, word, candidate, autojunk=False).get_matching_blocks()
    other = max(len(word), len(candidate)) - sum(block.size for block in blocks)
    return len(candidate) >= shortest and other <= 1 < len(word)


NO_NAMES = "(none)"
"""Placeholder where there are no names to suggest; a part of a hint that would show it is left out."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``a, b`` for a hint; all known names (at most twelve) when nothing is close, :data:`NO_NAMES` when there
    are none."""
    candidates = list(names)
    return ", ".join(nearest(name, candidates) or sorted(candidates)[:12]) or NO_NAMES


def safe_name(text: str, limit: int = 200) -> str:
    """Letters, digits and underscore only, never empty: folder names, Spark source names, Dagster keys."""
    return (re.sub(r"[^A-Za-z0-9_]", "_", text) or "_")[:limit]


def file_name(text: str, also: str = "") -> str:
    """A name for a file or folder: letters, digits, underscore and the characters of ``also`` are kept, each other
    character becomes ``-`` and its code in two hexadecimal digits, beyond U+00FF ``-u``, its code and ``-``. Different
    texts get different names, unlike in :func:`safe_name`. Checkpoints use these names."""
    return re.sub(rf"[^A-Za-z0-9_{re.escape(also)}]", lambda match: _code(ord(match[0])), text)


def _code(character: int) -> str:
    return f"-{character:02x}" if character <= 0xFF else f"-u{character:x}-"
