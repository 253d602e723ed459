"""Changed streams take over exactly where the running ones stop, and give way again, while records come and the engine
is killed. A plain model computes the rows of each version up to and from the points that the checkpoints name: no row
is there twice, and none is missing."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.project.load import load_project
from ds_dagster.runtime.deciding.versions import is_settled
from ds_dagster.runtime.versioning import Versions
from tests.e2e.feeding import House, Row, Stream, until

STREAMS = ("tap_rows", "tap_windows", "tap_pairs", "tap_hops", "tap_outer", "tap_runs")
ONE_OF_EACH = ("tap_rows", "tap_windows", "tap_pairs")
"""Without state, an aggregate and a join."""
FIELDS = {
    "tap_rows": ("id", "version"),
    "tap_pairs": ("tap", "fit", "version"),
    "tap_outer": ("tap", "fit", "version"),
    "tap_runs": ("id", "run", "version"),
}
CHANGES = {
    "1 AS version FROM taps WITH ('starting.position'='earliest')": "2 AS version FROM taps WITH "
    "('starting.position'='timestamp', 'starting.timestamp'='2000-01-01 00:00:00')",
    "SUM(size) AS total": "1000 * SUM(size) AS total",
    "SIZE 2 SECONDS": "SIZE 3 SECONDS",
    "fit, 1 AS version": "fit, 2 AS version",
    "run, 1 AS version": "run, 2 AS version",
    "WITHIN 1 SECONDS": "WITHIN 2 SECONDS",
}
SIZES = {1: 2000, 2: 3000}
"""Milliseconds of a window, by version."""
WITHIN = {1: 1000, 2: 2000}
WORDS = ("a", "b", "c")
LAST = 60_000
"""So much later than the others, one record in each topic closes all windows."""


@dataclass(frozen=True)
class Point:
    """Where a version stopped: records of each topic, and event time in milliseconds."""

    ends: dict[str, int]
    millis: int

    @classmethod
    def of(cls, path: Path) -> Point:
        _, head, *lines = path.read_text().splitlines()
        ends: dict[str, int] = {}
        for line in lines:
            for topic, partitions in json.loads(line[line.index("{") :]).items():
                ends |= {topic: partitions["0"]} if topic in ("taps", "fits") else {}
        return cls(ends, json.loads(head)["batchWatermarkMs"])


def stops(house: House, stream: str, version: int) -> list[Point]:
    """Where a version has stopped: after its last finished batch, or, where it was killed, maybe after the next one."""
    name = stream if version == 1 else f"{stream}-40{version}"
    (folder,) = (house.state / "checkpoints").glob(f"*/{name}/v1")
    last = max(int(path.name) for path in (folder / "commits").iterdir() if path.name.isdecimal())
    return [Point.of(path) for number in (last, last + 1) if (path := folder / "offsets" / str(number)).exists()]


class Model:
    """What is in the topics, and the rows that versions make of it."""

    def __init__(self, house: House) -> None:
        self.taps, self.fits = ([r.value for r in house.records(topic) if r.value] for topic in ("taps", "fits"))

    def rows(self, stream: str, version: int, is_own: Callable[[Point | None], bool]) -> Counter[Any]:
        return Counter(getattr(self, f"_{stream}")(version, is_own))

    def _tap_rows(self, version: int, is_own: Callable[[Any], bool]) -> Iterator[Any]:
        for number, tap in enumerate(self.taps):
            if is_own(lambda point: number < point.ends["taps"]):  # noqa: B023
                yield tap["id"], version

    def _tap_windows(self, version: int, is_own: Callable[[Any], bool]) -> Iterator[Any]:
        return self._windows(version, is_own, SIZES[version], SIZES[version])

    def _tap_hops(self, version: int, is_own: Callable[[Any], bool]) -> Iterator[Any]:
        return self._windows(version, is_own, 4000, 2000)

    def _windows(self, version: int, is_own: Callable[[Any], bool], size: int, hop: int) -> Iterator[Any]:
        totals = Counter[tuple[int, str]]()
        for tap in self.taps[:-1]:
            for back in range(size // hop):
                totals[(tap["at"] // hop - back) * hop, tap["word"]] += tap["size"]
        for (start, word), total in totals.items():
            if is_own(lambda point: start + size <= point.millis):  # noqa: B023
                yield start, start + size, word, total * (1 if version == 1 else 1000)

    def _tap_pairs(self, version: int, is_own: Callable[[Any], bool]) -> Iterator[Any]:
        for (n, tap), (m, fit) in product(enumerate(self.taps), enumerate(self.fits)):
            is_pair = tap["word"] == fit["word"] and abs(tap["at"] - fit["at"]) <= WITHIN[version]
            if is_pair and is_own(lambda point: n < point.ends["taps"] and m < point.ends["fits"]):  # noqa: B023
                yield tap["id"], fit["id"], version

    def _tap_outer(self, version: int, is_own: Callable[[Any], bool]) -> Iterator[Any]:
        """Pairs, and the rows of both sides that found none when time passed the last moment of one."""
        pairs = list(self._tap_pairs(version, lambda _: True))
        yield from self._tap_pairs(version, is_own)
        sides = ((self.taps[:-1], {tap for tap, _, _ in pairs}), (self.fits, {fit for _, fit, _ in pairs}))
        for is_fit, (rows, matched) in enumerate(sides):
            for row in rows:
                if row["id"] not in matched and is_own(lambda point: row["at"] + WITHIN[version] < point.millis):  # noqa: B023
                    yield (None, row["id"], version) if is_fit else (row["id"], None, version)

    def _tap_runs(self, version: int, is_own: Callable[[Any], bool]) -> Iterator[Any]:
        runs = Counter[str]()
        for tap in self.taps[:-1]:
            runs[tap["word"]] += tap["size"]
            if is_own(lambda point: tap["at"] < point.millis):  # noqa: B023
                yield tap["id"], runs[tap["word"]], version

    def expected(self, stream: str, first: Point, second: Point) -> Counter[Any]:
        """Version 1 until the first point, version 2 until the second, then version 1 again."""

        def of_old(is_before: Callable[[Point], bool]) -> bool:
            return is_before(first) or not is_before(second)

        return self.rows(stream, 1, of_old) + self.rows(stream, 2, lambda is_before: not of_old(is_before))


def written(house: House, stream: str) -> Counter[Any]:
    return Counter(shown(stream, record.value) for record in house.records(stream) if record.value)


def shown(stream: str, row: Row) -> Any:
    if stream in FIELDS:
        return tuple(row.get(name) for name in FIELDS[stream])
    start, end = (millis(row[name]) for name in ("window_start", "window_end"))
    return start, end, row["word"], row["total"]


def millis(text: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


@pytest.fixture
def changed(house: House) -> Iterator[Callable[[], None]]:
    """Writes the changed statements; the old ones are back afterwards."""
    path = house.root / "sql" / "switches.sql"
    old = path.read_text()

    def write(text: str) -> None:
        path.write_text(text)
        house.project = load_project(house.root, settings=house.settings, strict=True)

    def change() -> None:
        text = old
        for before, after in CHANGES.items():
            assert before in text
            text = text.replace(before, after)
        write(text)

    yield change
    write(old)
    house.stop(*(s.name for s in house.control.statuses() if s.of in STREAMS and s.desired == "RUNNING"))


def serves(house: House, streams: Sequence[str], version: int) -> bool:
    return all(house.control.status(stream).version == version for stream in streams)


def some(house: House, streams: Sequence[str], holds: Callable[[Any], bool]) -> bool:
    return any(holds(row) for stream in streams for row in Versions(house.control).jobs(stream).values())


def reached(house: House, kills: Sequence[str], is_there: Callable[[], bool], what: str) -> None:
    """Wait for a moment, and kill the engine there if it is one of these: only then every look counts."""
    until(is_there, what, pause=0.002 if what in kills else 0.3)
    if what in kills:
        house.kill_engine()
        house.recover()


def burst(numbers: Iterator[int], number: int, now: int) -> Iterator[Row]:
    """Three rows for each third of the second before ``now``. No event time that was reached is one of these, by 503 ms
    of lateness."""
    for third, at in enumerate((now - 600, now - 300, now)):
        for size in (1, 2, 3):
            yield {"id": next(numbers), "word": WORDS[(number + third + size) % 3], "size": size, "at": at}


@pytest.mark.parametrize(
    ("streams", "kills"),
    [
        pytest.param(ONE_OF_EACH, ("a new version stops",), id="short"),
        pytest.param(
            STREAMS,
            ("a staged version works", "a new version stops", "an old version stops"),
            marks=pytest.mark.slow,
            id="all",
        ),
    ],
)
def test_no_row_is_written_twice_and_none_is_missing(
    house: House, changed: Callable[[], None], streams: Sequence[str], kills: Sequence[str]
) -> None:
    versions, numbers = Versions(house.control, "tests"), count()
    for topic in ("taps", "fits"):
        house.topic(topic, 1)

    def send(number: int, later: int = 0) -> None:
        rows = list(burst(numbers, number, int(time.time() * 100) * 10 + later))
        house.send("taps", [row for row in rows if row["size"] < 3])
        house.send("fits", [{name: row[name] for name in ("id", "word", "at")} for row in rows if row["size"] == 3])

    send(0)
    house.start(*streams)
    with Stream(send, pause=1.0) as flow:
        until(lambda: all(written(house, stream) for stream in streams), "the first rows of all streams")
        changed()
        for stream in streams:
            versions.stage(house.project, stream)
        staged = [f"{stream}@2" for stream in streams]
        reached(house, kills, lambda: house.control.status(staged[1]).state == "RUNNING", "a staged version works")
        house.until_running([*streams, *staged])
        for stream in streams:
            versions.promote(stream)
        reached(
            house, kills, lambda: serves(house, streams, 2) or some(house, streams, is_settled), "a new version stops"
        )
        reached(
            house,
            kills,
            lambda: (
                serves(house, streams, 2)
                or some(house, streams, lambda row: row.action == "promote" and row.role == "serving")
            ),
            "an old version stops",
        )
        until(lambda: serves(house, streams, 2), "the new versions serve")
        first = {stream: stops(house, stream, 1) for stream in streams}
        house.until_running(streams)
        until(lambda: written(house, "tap_windows").keys() & model_windows(house), "windows of version 2")
        for stream in streams:
            versions.rollback(stream)
        until(lambda: serves(house, streams, 1), "the old versions serve again")
        second = {stream: stops(house, stream, 2) for stream in streams}
        house.until_running(streams)
        flow.end()
    send(0, LAST)
    house.send("taps", [{"id": next(numbers), "word": "end", "size": 0, "at": int(time.time() * 100) * 10 + 2 * LAST}])
    model = Model(house)
    for stream in streams:
        choices = [model.expected(stream, one, two) for one, two in product(first[stream], second[stream])]
        try:
            until(lambda: written(house, stream) in choices, f"{stream} is right", 60)  # noqa: B023
        except AssertionError:
            rows, wanted = written(house, stream), choices[0]
            raise AssertionError(f"{stream}: missing {wanted - rows}, too much {rows - wanted}") from None
        assert choices[0] - model.rows(stream, 1, lambda _: True), "version 2 has written rows"


def model_windows(house: House) -> set[Any]:
    """Rows that version 2 may have made."""
    return set(Model(house).rows("tap_windows", 2, lambda _: True))
