"""The Nexmark queries: what the stream says, folded by key, is DuckDB's answer over all events at once."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.nexmark.dataset import Dataset
from benchmarks.nexmark.generator import BASE, DISORDER_MILLIS, events
from benchmarks.nexmark.queries import HERE, NAMES, Compiled, batch_answer, compiled
from benchmarks.nexmark.running import compare
from ds_dagster.testing.session import shared_session

REFUSED: tuple[str, ...] = ()
"""Queries that may be refused, as not built. May only shrink."""
RARELY = ("q5", "q6", "q8", "q9", "q17", "q18", "q19", "q20")
"""Queries whose operators the others have too; they run with the long tests."""
EVENTS, PARTS = 2_500, 2
"""Half a minute of events around midnight; a restart between the parts."""
MANY_EVENTS, MANY_PARTS = 10_000, 8


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    made = Dataset(tmp_path_factory.mktemp("nexmark"), PARTS, EVENTS)
    made.write()
    return made


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    made = Dataset(tmp_path_factory.mktemp("nexmark-many"), MANY_PARTS, MANY_EVENTS)
    made.write()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path)


def built(name: str, folder: Path) -> Compiled:
    query = compiled(name, folder)
    if query.refused and name in REFUSED:
        pytest.skip(f"not built yet: {query.refused}")
    assert not query.refused, query.reason
    return query


@pytest.mark.cases
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in RARELY else name for name in NAMES]
)
def test_the_stream_with_a_restart_gives_the_batch_answer(name: str, small: Dataset, folder: Path) -> None:
    found = compare(built(name, folder), small, shared_session(), folder, restart=True)
    assert found.rows, "the events have an answer"
    assert found.is_equal, found.text()


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True], ids=["straight", "restart"])
@pytest.mark.parametrize("name", NAMES)
def test_more_events_give_the_batch_answer(name: str, restart: bool, many: Dataset, folder: Path) -> None:
    found = compare(built(name, folder), many, shared_session(), folder, restart=restart)
    assert found.is_equal, found.text()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_built_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    query = compiled(name, tmp_path)
    assert not query.refused or (name in REFUSED and not query.refused.startswith("SYNTAX")), query.reason


def test_every_query_has_its_texts() -> None:
    for folder in ("sql", "batch", "flink"):
        found = {path.stem for path in (HERE / folder).glob("*.sql")} - {"relations"}
        assert found == set(NAMES), folder


def test_the_events_are_the_published_ones() -> None:
    found = events(5_000)
    assert Counter(event.kind for event in found) == {"bid": 4_600, "auction": 300, "person": 100}
    assert {event.row["category"] for event in found if event.kind == "auction"} == set(range(10, 15))
    bids = [event.row for event in found if event.kind == "bid"]
    assert 0.45 < sum(row["auction"] % 100 == 0 for row in bids) / len(bids) < 0.6, "half of them on hot auctions"
    assert 100 <= min(row["price"] for row in bids) < max(row["price"] for row in bids) <= 100_000_000


def test_the_events_are_the_same_every_time_and_out_of_order_by_seconds() -> None:
    found = events(2_000)
    assert found == events(2_000)
    assert found != events(2_000, seed=1)
    assert sorted(event.number for event in found) == list(range(2_000))
    times = [event.row["datetime"] for event in found]
    assert times != sorted(times)
    assert len(set(times)) == len(times), "no ties"
    assert min(times) == BASE
    late = timedelta(milliseconds=DISORDER_MILLIS)
    assert all(timedelta(0) <= event.arrival - event.row["datetime"] < late for event in found)


def test_more_events_than_milliseconds_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        events(10, per_second=1_001)


@pytest.mark.sweep
def test_every_question_has_an_answer(small: Dataset) -> None:
    answers = {name: batch_answer(name, small) for name in NAMES}
    assert not [name for name, rows in answers.items() if not rows]
    assert {row["day"] for row in answers["q15"]} == {"2015-07-14", "2015-07-15"}
    assert {row["bidtimetype"] for row in answers["q14"]} == {"nightTime"}
