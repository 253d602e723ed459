"""A changed view is built beside the running one, takes over and gives way again, while it is filled and read and the
engine is killed at every step, broker and database once. Readers see the answers of a plain count: never fewer rows
than before, never more than were sent."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count

import pytest

from ds_dagster.catalog.versions import KeepsVersions
from ds_dagster.project.load import kind_of_store, load_project
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.deciding.versions import is_settled
from ds_dagster.runtime.versioning import Versions
from tests.command_line import called
from tests.e2e.feeding import WAIT, House, Row, Stream, until

VIEWS = ("counted_file", "counted_table", "counted_load", "counted_log")
SUMS = "counted_sums"
"""Reads the changelog."""
WORDS = ("a", "b", "c", "d", "e")
CHANGED = "COUNT(*) AS n, SUM(size) AS total FROM"
NUMBERS = count()
LOCK = threading.Lock()
"""A topic has one consumer."""


def counts(rows: list[Row]) -> Counter[str]:
    return Counter({row["word"]: row["n"] for row in rows})


def logged(house: House) -> list[Row]:
    """The changelog as a consumer of its topic sees it."""
    with LOCK:
        return list({record.key: record.value for record in house.records("counted_log")}.values())


READERS: Mapping[str, Callable[[House], list[Row]]] = {
    "file": lambda house: house.view("counted_file"),
    "server": lambda house: house.table("SELECT word, n FROM counted_table"),
    "table": lambda house: house.table("SELECT word, n FROM counted_load"),
    "topic": lambda house: [row for row in logged(house) if row],
    "question of the file": lambda house: house.query("SELECT word, n FROM counted_file"),
    "question of the server": lambda house: house.query("SELECT word, n FROM counted_table"),
}
"""Plain clients of the stores, and ``ds query``."""
IDLE = 39
"""A reader waits so many times as long as its last read took: six of them leave most of a processor to the engine."""
LEAST_SECONDS = 0.03
"""How long a reader waits at least: the one of the file reads in a millisecond."""


class Reading:
    """Reads all views all the time. Each answer has every row of the answer before, and none that was not sent. There
    may be no answer while a server is down, and none from a connection that was made before."""

    def __init__(self, house: House) -> None:
        self.house, self.sent, self.failures = house, Counter[str](), list[str]()
        self.reads = self.kills = 0
        self.is_down = False
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(name,)) for name in READERS]

    def send(self, number: int) -> None:
        rows = [{"id": next(NUMBERS), "word": WORDS[(number + i) % 5], "size": i} for i in range(10)]
        self.sent.update(row["word"] for row in rows)
        self.house.send("counted", rows)

    def _read(self, name: str) -> None:
        before: Counter[str] = Counter()
        took, kills = 0.0, self.kills
        while not self._end.wait(max(LEAST_SECONDS, IDLE * took)):
            begin = time.monotonic()
            try:
                now = counts(READERS[name](self.house))
            except Exception as problem:  # noqa: BLE001, a reader never fails
                if self.is_down or kills != self.kills:
                    continue
                self.failures.append(f"{name}: {problem!r}")
                return
            sent = Counter(self.sent)
            if before - now or now - sent:
                self.failures.append(f"{name}: {dict(before)}, then {dict(now)} of {dict(sent)}")
                return
            kills = kills if self.is_down else self.kills
            before, self.reads, took = now, self.reads + 1, time.monotonic() - begin

    def __enter__(self) -> Reading:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(WAIT)

    def kill_servers(self, *names: str) -> None:
        """kill -9, and start them again."""
        self.is_down, self.kills = True, self.kills + 1
        for name in names:
            self.house.kill_server(name)
        self.house.up(*names)
        self.is_down = False

    def check(self) -> None:
        assert not self.failures, self.failures
        assert self.reads > 100


@pytest.fixture
def written(house: House) -> Iterator[Callable[[str], None]]:
    """Writes the statements of all views; the old ones are back afterwards."""
    path = house.root / "sql" / "versions.sql"
    old = path.read_text()

    def write(select: str) -> None:
        path.write_text(old.replace("COUNT(*) AS n FROM", select))
        house.project = load_project(house.root, settings=house.settings, strict=True)

    yield write
    write("COUNT(*) AS n FROM")
    house.stop(*(s.name for s in house.control.statuses() if s.of in (*VIEWS, SUMS) and s.desired == "RUNNING"))


def kill_when(house: House, reached: Callable[[], bool], what: str) -> None:
    until(reached, what, pause=0.002)
    house.kill_engine()
    house.recover()


def serves(house: House, version: int) -> bool:
    return all(house.control.status(view).version == version for view in VIEWS)


def is_halted(house: House) -> bool:
    """A version that serves was stopped for another one."""
    rows = [Versions(house.control).jobs(view)[view] for view in VIEWS]
    return any(row.desired == "STOPPED" and row.action == "promote" for row in rows)


def has_settled(house: House) -> bool:
    return any(is_settled(row) for view in VIEWS for row in Versions(house.control).jobs(view).values())


def change_names(house: House, view: str) -> bool:
    """What the engine does in the store when both versions rest, without the journal: as if it was killed then."""
    jobs = Versions(house.control).jobs(view)
    other = next((row for row in jobs.values() if is_settled(row)), None)
    if other is None:
        return False
    relation = house.project.queries[view].sink
    kind, store = kind_of_store(house.project, relation), house.project.catalog.store(relation.store)
    if not isinstance(kind, KeepsVersions):
        return False
    write = kind.write_spec(store, relation, "continuous")
    kind.serve_version(write, resolver(house.settings, store.name), jobs[view].version, other.version)
    return True


def final(house: House, reading: Reading) -> None:
    """All views have every record once."""
    sent = Counter(record.value["word"] for record in house.records("counted") if record.value)
    assert sent == reading.sent
    for name, read in READERS.items():
        until(lambda: counts(read(house)) == sent, f"{name} has every record once")  # noqa: B023
    sums = Counter[str]()
    for word, number in sent.items():
        sums["early" if word < "c" else "late"] += number
    until(lambda: counts(house.view(SUMS)) == sums, "a view of the changelog has every record once")
    assert sum(row["words"] for row in house.view(SUMS)) == len(sent)


@pytest.mark.slow
def test_views_are_whole_while_versions_change_and_the_engine_dies(
    house: House, written: Callable[[str], None]
) -> None:
    versions = Versions(house.control, "tests")
    house.start(*VIEWS, SUMS)
    reading = Reading(house)
    reading.send(0)
    until(lambda: all(counts(read(house)) for read in READERS.values()), "the first rows")
    with reading, Stream(reading.send, pause=0.3) as flow:
        written(CHANGED)
        for view in VIEWS:
            versions.stage(house.project, view)
        staged = [f"{view}@2" for view in VIEWS]
        kill_when(house, lambda: house.control.status(staged[0]).state in ("STARTING", "RUNNING"), "a version starts")
        house.until_running([*VIEWS, *staged])
        for view in VIEWS:
            versions.promote(view)
        kill_when(house, lambda: is_halted(house) or serves(house, 2), "an old version stops")
        until(lambda: has_settled(house) or serves(house, 2), "a new version stops", pause=0.002)
        reading.kill_servers("kafka", "postgres")
        until(lambda: serves(house, 2), "the new versions serve")
        house.until_running(VIEWS)
        for view in VIEWS:
            versions.rollback(view)
        until(lambda: has_settled(house) or serves(house, 1), "a new version stops", pause=0.002)
        house.kill_engine()
        changed = [view for view in VIEWS if change_names(house, view)]
        house.recover()
        until(lambda: serves(house, 1), "the old versions serve again")
        house.until_running(VIEWS)
        flow.end()
        final(house, reading)
    reading.check()
    print(f"{reading.reads} reads, names of {changed} changed without the journal")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_views_are_whole_whatever_is_killed(house: House, written: Callable[[str], None], seed: int) -> None:
    """At every step of staging, promoting and rolling back something dies: engine, broker or database."""
    chance, versions = random.Random(seed), Versions(house.control, "tests")
    house.start(*VIEWS, SUMS)
    reading = Reading(house)
    reading.sent.update(record.value["word"] for record in house.records("counted") if record.value)
    reading.send(0)
    until(lambda: all(counts(read(house)) for read in READERS.values()), "the first rows")
    old = {view: house.control.status(view).version for view in VIEWS}

    def kill(points: Mapping[str, Callable[[], bool]], is_over: Callable[[], bool]) -> None:
        point, victim = chance.choice(sorted(points)), chance.choice(("engine", "kafka", "postgres"))
        print(f"{victim} is killed when {point}")
        until(lambda: points[point]() or is_over(), point, pause=0.002)
        if victim == "engine":
            house.kill_engine()
            house.recover()
        else:
            reading.kill_servers(victim)

    def take_over(step: Callable[[str], str], is_old: bool) -> None:
        for view in VIEWS:
            step(view)

        def is_over() -> bool:
            return all((house.control.status(view).version == old[view]) == is_old for view in VIEWS)

        for _ in range(2):
            kill({"one is halted": lambda: is_halted(house), "one is settled": lambda: has_settled(house)}, is_over)
        until(is_over, "all have taken over")
        house.until_running([*VIEWS, SUMS])

    with reading, Stream(reading.send, pause=0.3) as flow:
        written(CHANGED.replace("total", f"total_{seed}"))
        staged = [versions.stage(house.project, view) for view in VIEWS]
        states = {f"{name} starts": partial(is_up, house, name) for name in staged}
        kill(states, lambda: False)
        house.until_running([*VIEWS, *staged])
        take_over(versions.promote, is_old=False)
        take_over(versions.rollback, is_old=True)
        flow.end()
        final(house, reading)
    reading.check()
    versions.drop_kept()
    until(lambda: not any(s.of in VIEWS and s.role != "serving" for s in house.control.statuses()), "they are gone")


def is_up(house: House, name: str) -> bool:
    return house.control.status(name).state in ("STARTING", "RUNNING")


def ds(house: House, *arguments: str) -> tuple[int, str, str]:
    done = called(house.root, *arguments)
    return done.code, done.out, done.err


def check_difference(house: House, view: str) -> None:
    """The kept version of a view has the rows of the serving one, and a column more."""
    kept = max(status.version for status in house.control.statuses() if status.of == view)
    code, out, err = ds(house, "diff", view, "--version", str(kept), "--json")
    assert code == 0, (out, err)
    result = json.loads(out)
    assert result["rows"]["before"] == result["rows"]["after"] == len(WORDS), result
    assert not any(result[name] for name in ("added", "removed", "changed", "types", "lost_columns")), result
    assert result["new_columns"] == ["size_total"], result


def test_apply_builds_a_version_and_rollback_returns(house: House, written: Callable[[str], None]) -> None:
    house.start(*VIEWS, SUMS)
    reading = Reading(house)
    reading.sent.update(record.value["word"] for record in house.records("counted") if record.value)
    reading.send(1)
    until(lambda: all(counts(read(house)) for read in READERS.values()), "the first rows")
    first = house.control.status(VIEWS[0]).version
    with reading:
        written(CHANGED.replace("total", "size_total"))
        code, out, err = ds(house, "plan", *VIEWS)
        assert code == 0 and out.count("new version") == len(VIEWS), (out, err)
        code, out, err = ds(house, "apply", *VIEWS)
        assert code == 1 and "--allow new-version" in err, (out, err)
        code, out, err = ds(house, "apply", *VIEWS, "--allow", "new-version", "--json")
        assert code == 0, (out, err)
        assert [item["outcome"] for item in json.loads(out)["queries"]] == ["promoted"] * len(VIEWS)
        code, out, err = ds(house, "query", "SELECT * FROM counted_file ORDER BY word", "--json")
        assert [column["name"] for column in json.loads(out)["columns"]] == ["word", "n", "size_total"], (out, err)
        code, out, err = ds(house, "ps", "--json")
        roles = {job["name"]: job["role"] for job in json.loads(out)["jobs"] if job["query"] in VIEWS}
        assert roles[VIEWS[0]] == "serving" and roles[f"{VIEWS[0]}@{first}"] == "kept", roles
        code, out, err = ds(house, "plan", *VIEWS)
        assert out.count("unchanged") == len(VIEWS), (out, err)
        for view in VIEWS:
            code, out, err = ds(house, "rollback", view)
            assert code == 0 and f"version {first} serves" in out, (out, err)
            check_difference(house, view)
        reading.send(2)
        final(house, reading)
        code, out, err = ds(house, "query", "SELECT * FROM counted_file ORDER BY word", "--json")
        assert [column["name"] for column in json.loads(out)["columns"]] == ["word", "n"], (out, err)
        code, out, err = ds(house, "gc", "--yes")
        assert code == 0 and "deleted version counted_file@" in out, (out, err)
        until(lambda: not any(s.of in VIEWS and s.role != "serving" for s in house.control.statuses()), "they are gone")
        final(house, reading)
    reading.check()
    public = house.state / "views" / "clickstream_db.public.counted_file.db"
    assert list(public.parent.glob("*counted_file@*.db")) == [public.resolve()] * public.is_symlink()
    names = house.table("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'counted_%'")
    assert sorted(row["relname"] for row in names) == ["counted_load", "counted_table"]
    assert [topic for topic in house.producer.list_topics(timeout=60).topics if "-ds-v" in topic] == []
