"""One rule over all entries of a table, as one test: it goes through the whole table and shows every entry that breaks
the rule."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Entry = TypeVar("Entry")


def check_every(
    table: Iterable[Entry], rule: Callable[[Entry], None], *, name: Callable[[Entry], object] = str
) -> None:
    """Apply ``rule``, which asserts, to each entry.

    Args:
        name: of an entry, in the failure.

    Raises:
        AssertionError: an entry breaks the rule, or the table is empty.
    """
    entries = list(table)
    assert entries, "a table without entries"
    failures = []
    for entry in entries:
        try:
            rule(entry)
        except (Exception, pytest.fail.Exception) as problem:  # noqa: BLE001, the boundary of one entry: listed
            where = traceback.extract_tb(problem.__traceback__)[-1]
            failures.append(f"{name(entry)}: {type(problem).__name__} in line {where.lineno}: {problem}")
    assert not failures, f"{len(failures)} of {len(entries)}:\n\n" + "\n\n".join(failures)
