"""The rate of the second half of a run."""

from __future__ import annotations

import pytest

from benchmarks.nexmark.halves import Mark, second_half


@pytest.mark.parametrize(
    ("marks", "rate"),
    [
        ([], None),
        ([(4.0, 100)], None),  # the end alone
        ([(1.0, 40), (2.0, 50), (3.0, 90)], 50 / 3),
        ([(1.0, 40), (2.0, 60), (4.0, 100)], 40 / 3),
        ([(2.0, 120), (4.0, 200)], 40 / 3),  # two scans of the same topic
        ([(4.5, 60), (6.0, 100)], 80),
        ([(5.0, 60)], None),  # no time is left
    ],
)
def test_the_second_half_begins_at_the_first_mark_behind_the_middle(marks: list[Mark], rate: float | None) -> None:
    assert second_half(marks, 100, 5.0) == (None if rate is None else round(rate))
