"""Alarms of many keys behind one timer: each key is looked at once, when time reaches its moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.spark.jvm.test_jvm_temporal_join import advance, click, joined

pytestmark = pytest.mark.spark
STEPS = (1, 3, 40, 41, 60, 3600, 90_000, 90_001, 4_000_000, 90_000_000)
"""Seconds from the begin: within a slice, over several, over slices of every width."""


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_row_leaves_in_the_first_batch_behind_its_moment(lab: Any, memory: Callable[[], Any], seed: int) -> None:
    """Keys come once and are silent then, so that nothing but their alarm can let their rows go."""
    chance = random.Random(seed)
    source = memory()
    query = lab.start(joined(lab, source, outer=True))
    begin, waiting, number, now = 1_700_000_000, dict[str, float](), 0, 0.0
    for step in STEPS:
        rows = []
        for _ in range(chance.choice((0, 5, 300))):
            number += 1
            away = chance.choice((0.5, 20, 2_000, 70_000, 3_000_000, 95_000_000)) * chance.random()
            at = begin + now + away
            rows.append(click(at, f"key{number}", number))
            waiting[str(number)] = rows[-1].ts / 1_000_000
        if rows:
            source.add(*(row.text for row in rows))
            assert lab.step(query) == []
        if chance.random() < 0.3:
            query.stop()
            query = lab.start(joined(lab, source, outer=True))
        now = step
        advance(lab, begin + now)
        left = sorted(name for name, at in waiting.items() if at < begin + now)
        assert sorted(row[0] for row in lab.step(query)) == left
        waiting = {name: at for name, at in waiting.items() if name not in left}
    assert waiting == {} or min(waiting.values()) >= begin + STEPS[-1]


def test_more_alarms_than_one_chunk_holds(lab: Any, memory: Callable[[], Any]) -> None:
    """A megabyte is written before the batch ends; keys of 400 bytes, in two batches, due at three moments."""
    source = memory()
    query = lab.start(joined(lab, source, outer=True))
    number, due = 0, dict[int, list[str]]()
    for _ in range(2):
        rows = []
        for _ in range(4_000):
            number += 1
            at = 1_000 + number % 3
            rows.append(click(at, f"{number:06d}" * 70, number))
            due.setdefault(at, []).append(str(number))
        source.add(*(row.text for row in rows))
        advance(lab, 900)
        assert lab.step(query) == []
    for at in sorted(due):
        advance(lab, at + 0.5)
        assert sorted(row[0] for row in lab.step(query)) == sorted(due[at])
