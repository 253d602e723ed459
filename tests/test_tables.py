"""A rule over a table sees every entry."""

from __future__ import annotations

import pytest

from tests.tables import check_every


def even(entry: int) -> None:
    if entry == 5:
        with pytest.raises(ValueError, match="never raised"):
            assert entry
    assert entry % 2 == 0, f"{entry} is odd"


def test_all_entries_that_break_the_rule_are_listed() -> None:
    with pytest.raises(AssertionError) as caught:
        check_every([1, 2, 3, 4, 5], even, name=lambda entry: f"number {entry}")
    shown = str(caught.value)
    assert shown.startswith("3 of 5:")
    assert [f"number {entry}: " in shown for entry in range(1, 6)] == [True, False, True, False, True]
    assert "1 is odd" in shown and "DID NOT RAISE" in shown


def test_an_empty_table_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="without entries"):
        check_every([], even)
    check_every([2, 4], even)
