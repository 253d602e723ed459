"""What a change costs, and how an entity differs from what a project says, by hand."""

from __future__ import annotations

import pytest

from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.reading.extent import Extent
from ds_dagster.catalog.reading.volume import Volume
from ds_dagster.runtime.planning.effort import Reread, entity_drift, reread, reread_of_volume, seconds_of

EXTENTS = {
    "0": Extent(10, 10, 110, 50_000, 20),
    "1": Extent(0, 40, 60, 70_000, 40),
    "2": Extent(0, 0, 10),  # its first record could not be looked at
}


def test_what_is_read_again() -> None:
    found = reread("k.t", "earliest", EXTENTS, 100_000, now=120.0)
    assert found == Reread("k.t", "earliest", 130, 100 * 20 + 20 * 40 + 10 * 30, 50.0, is_cut=True, expires=30.0)
    assert reread("k.t", "earliest", EXTENTS, 10_000, now=120.0).expires == 0.0
    assert reread("k.t", "earliest", EXTENTS, None, now=120.0).expires is None
    latest = reread("k.t", "latest", EXTENTS, None, now=120.0)
    assert (latest.records, latest.bytes) == (0, 0)
    assert reread("k.t", "earliest", {"0": Extent(0, 0, 0)}, 1000, now=1.0) == Reread("k.t", "earliest", 0, 0)


def test_time_needs_a_rate() -> None:
    reads = [reread("k.t", "earliest", EXTENTS, None, 0.0)] * 2
    assert seconds_of(reads, 26.0) == 10.0
    assert seconds_of(reads, None) is None and seconds_of(reads, 0.0) is None and seconds_of([], 5.0) is None


def test_sources_without_numbers() -> None:
    rows, files = reread_of_volume("pg.s.t", "earliest", Volume(12, 900)), reread_of_volume("f.a", "", Volume(None, 7))
    assert (rows.records, rows.bytes, seconds_of([rows], 6.0)) == (12, 900, 2.0)
    assert (files.records, files.bytes, seconds_of([rows, files], 6.0)) == (None, 7, None)
    assert reread_of_volume("k.s", "earliest", None) == Reread("k.s", "earliest", None, None)
    assert reread_of_volume("k.s", "latest", None) == Reread("k.s", "latest", 0, 0)


PLAN = EntityPlan("t", {"p": 2, "r": 1}, {"cleanup.policy": "delete", "x": "1"}, stated=frozenset({"p"}))


@pytest.mark.parametrize(
    ("facts", "drift"),
    [
        (None, ["k.t is gone"]),
        (EntityFacts("t", {"p": 2, "r": 3}, {"other": "y"}), []),
        (EntityFacts("t", {"p": 3, "r": 1}), ["k.t: p is 3, not 2"]),
        (
            EntityFacts("t", {"p": 2}, {"cleanup.policy": "compact", "x": "1"}),
            ["k.t: cleanup.policy is compact, not delete"],
        ),
    ],
)
def test_drift(facts: EntityFacts | None, drift: list[str]) -> None:
    assert list(entity_drift("k.t", PLAN, facts)) == drift
