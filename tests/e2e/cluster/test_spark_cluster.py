"""A Spark cluster with executors of their own: partitions from its cores, every row once, whatever is killed."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.settings import load_settings
from tests.e2e.clickstream import until_folded, until_same, values
from tests.e2e.cluster.standalone import Standalone
from tests.e2e.feeding import WAIT, House, Row, Stream, until
from tests.e2e.model import Versions, counted, difference, folded, interval_join, temporal_join, tumbled
from tests.e2e.timed import millis

CORES = 2
SEED = int(os.environ.get("DS_TEST_SEED", "17"))
KILLS = int(os.environ.get("DS_TEST_KILLS", "20"))
VICTIMS = ("executor", "worker", "driver", "broker")
SECONDS = 5
IGNORE = "WITH ('source.deserialization.error.handling'='IGNORE')"
SQL = f"""
USE DATABASE clickstream_db;
USE STORE prod_kafka;
CREATE STREAM events (id BIGINT, userid VARCHAR, v BIGINT)
  WITH ('topic'='events', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE CHANGELOG members (userid VARCHAR, city VARCHAR, PRIMARY KEY(userid))
  WITH ('topic'='members', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM copied AS SELECT * FROM events {IGNORE} WHERE v <> 3;
CREATE CHANGELOG windows AS
  SELECT window_start, window_end, userid, count(*) AS n
  FROM TUMBLE(events, SIZE {SECONDS} SECONDS) WITH ('source.deserialization.error.handling'='IGNORE_AND_LOG')
  WHERE v >= 0 GROUP BY window_start, window_end, userid;
CREATE CHANGELOG cities AS SELECT city, count(*) AS n FROM members GROUP BY city;
CREATE STREAM joined AS SELECT e.id AS id, e.v AS v, m.city AS city
  FROM events e {IGNORE} JOIN members m ON e.userid = m.userid;
CREATE STREAM replies (userid VARCHAR, reply BIGINT)
  WITH ('topic'='replies', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM pairs AS SELECT e.id AS id, r.reply AS reply
  FROM events e {IGNORE} JOIN replies r WITHIN {SECONDS} SECONDS ON e.userid = r.userid;
CREATE CHANGELOG best AS SELECT userid, v, id FROM (
  SELECT userid, v, id, ROW_NUMBER() OVER (PARTITION BY userid ORDER BY v DESC, id) AS place
  FROM events {IGNORE}) q WHERE place = 1;
CREATE FUNCTION twice(v BIGINT) RETURNS BIGINT LANGUAGE PYTHON WITH ('module' = 'doubling');
BEGIN APPLICATION doubled
  CREATE VIRTUAL STREAM doubles AS SELECT id, userid, twice(v) AS w FROM events {IGNORE} WHERE v >= 0;
  CREATE STREAM evens AS SELECT id, w FROM doubles WHERE id % 2 = 0;
  CREATE TABLE odds WITH ('store'='warehouse', 'refresh.mode'='continuous') AS
    SELECT id, w FROM doubles WHERE id % 2 = 1;
  CREATE MATERIALIZED VIEW sums AS SELECT userid, SUM(w) AS w FROM doubles GROUP BY userid;
END APPLICATION;
CREATE MATERIALIZED VIEW in_file AS SELECT userid, count(*) AS n FROM events {IGNORE} WHERE v >= 0 GROUP BY userid;
CREATE MATERIALIZED VIEW in_table WITH ('store'='warehouse') AS
  SELECT userid, count(*) AS n FROM events {IGNORE} WHERE v >= 0 GROUP BY userid;
"""
DOUBLING = "def twice(v):\n    return None if v is None else 2 * v\n"
JOBS = ("copied", "windows", "cities", "joined", "pairs", "best", "doubled", "in_file", "in_table")
QUICK = ("windows", "joined", "doubled")
"""Event time with a log of bad records, a join with state, an application without state that calls Python: what runs
outside the long tier."""
STATELESS = ("copied", "doubled")
SETTINGS = """
journal = "${{DS_TEST_JOURNAL}}"
[engine]
master = "{master}"
memory = "1g"
[spark]
"spark.driver.host" = "127.0.0.1"
"spark.executor.cores" = "1"
"spark.executor.memory" = "768m"
"spark.executor.syncLogLevel.enabled" = "true"
"spark.executor.extraJavaOptions" = "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
MEMBERS = [f"User_{number}" for number in range(12)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("spark"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def house(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    settings = SETTINGS.format(master=cluster.url)
    root = tmp_path_factory.mktemp("house")
    (root / "doubling.py").write_text(DOUBLING)
    house = House(root, {"cluster.sql": SQL}, settings=settings, servers=("kafka", "postgres"))
    house.topic("replies", 2)  # the job that reads them is of the long tier
    house.start(*QUICK)
    yield house
    house.close()


@pytest.fixture
def every_job(house: House) -> None:
    """The jobs of the long tier beside those that run already."""
    house.start(*JOBS)


@dataclass
class Feed:
    """Events of members who move; every fifth burst holds a record that cannot be read."""

    house: House
    chance: random.Random = field(default_factory=lambda: random.Random(17))
    bursts: int = 0

    def send(self, _number: int = 0) -> None:
        """One burst of twenty events."""
        number, chance = self.bursts, self.chance
        names = chance.sample(MEMBERS, 3)
        cities = [{"userid": name, "city": f"City_{chance.randrange(5)}"} for name in names]
        self.house.send("members", cities, key="userid")
        rows = [{"id": 20 * number + n, "userid": chance.choice(MEMBERS), "v": chance.randrange(9)} for n in range(20)]
        bad = {"id": -number, "userid": "nobody", "v": "not a number"}
        self.house.send("replies", [{"userid": name, "reply": number} for name in names])
        self.house.send("events", [*rows, bad] if number % 5 == 0 else rows)
        self.bursts += 1


@pytest.fixture(scope="module")
def feed(house: House) -> Feed:
    return Feed(house)


def batches(house: House, job: str) -> tuple[int, int]:
    """The last batch that was begun and the last that was finished, by the checkpoint."""
    (root,) = (house.state / "checkpoints").glob(f"*/{job}/v*")
    numbers = [[int(p.name) for p in (root / kind).glob("*") if p.name.isdecimal()] for kind in ("offsets", "commits")]
    begun, finished = (max(part, default=-1) for part in numbers)
    return begun, finished


def until_in_batch(house: House, job: str) -> None:
    before = batches(house, job)[1]
    until(lambda: batches(house, job)[0] > max(before, batches(house, job)[1]), f"a batch of {job} runs", pause=0.002)


@dataclass(frozen=True)
class Records:
    """What is in the topics of the two sources and of the replies."""

    house: House
    events: list[tuple[int, Row]]
    bad: list[Row]
    changes: list[tuple[int, str, Row | None]]

    @classmethod
    def of(cls, house: House) -> Records:
        arrived = [(record.at, record.value) for record in house.records("events") if record.value is not None]
        events = [(at, row) for at, row in arrived if isinstance(row["v"], int)]
        keyed = [(r.at, json.loads(str(r.key))["userid"], r.value) for r in house.records("members")]
        return cls(house, events, [row for _, row in arrived if not isinstance(row["v"], int)], keyed)

    @property
    def rows(self) -> list[Row]:
        return [row for _, row in self.events]

    def totals(self) -> list[Row]:
        return counted(self.rows, ("userid",), "n")


def check(house: House, jobs: Sequence[str] = QUICK) -> None:
    """Every result against the model, which knows the records of the sources alone."""
    records = Records.of(house)
    for job in jobs:
        CHECKS[job](house, records)


def _copied(house: House, records: Records) -> None:
    until_same(house, "copied", [row for row in records.rows if row["v"] != 3])


def _joined(house: House, records: Records) -> None:
    of_city = lambda event, member: {"id": event["id"], "v": event["v"], "city": member["city"]}  # noqa: E731
    until_same(house, "joined", list(temporal_join(records.events, Versions(records.changes), "userid", of_city)))


def _pairs(house: House, records: Records) -> None:
    replies = [(record.at, record.value) for record in house.records("replies") if record.value is not None]
    of_reply = lambda event, reply: {"id": event["id"], "reply": reply["reply"]}  # noqa: E731
    until_same(house, "pairs", list(interval_join(records.events, replies, "userid", 1000 * SECONDS, of_reply)))


def _best(house: House, records: Records) -> None:
    first = {row["userid"]: row for row in sorted(records.rows, key=lambda row: (row["v"], -row["id"]))}
    until_folded(house, "best", list(first.values()))


def _cities(house: House, records: Records) -> None:
    live = {key: row for _, key, row in records.changes}
    until_folded(house, "cities", counted([row for row in live.values() if row], ("city",), "n"))


def _windows(house: House, records: Records) -> None:
    per_window = tumbled(records.events, 1000 * SECONDS, "userid", "n")
    until(lambda: not difference(windows(house), per_window), "windows are what the model says", pause=0.5)
    until_logged(house, records.bad)


def _in_file(house: House, records: Records) -> None:
    until(lambda: not difference(house.view("in_file"), records.totals()), "the view in a file is right", pause=0.5)


def _in_table(house: House, records: Records) -> None:
    table = "SELECT userid, n FROM in_table"
    until(lambda: not difference(house.table(table), records.totals()), "the table is right", pause=0.5)


def _doubled(house: House, records: Records) -> None:
    """All sinks of the application have every batch once."""
    rows = records.rows
    doubles = [{"id": row["id"], "w": 2 * row["v"]} for row in rows]
    until_same(house, "evens", [row for row in doubles if row["id"] % 2 == 0])
    odds = [row for row in doubles if row["id"] % 2]
    until(lambda: not difference(house.table("SELECT id, w FROM odds"), odds), "the table of odds is right", pause=0.5)
    names = {row["userid"] for row in rows}
    sums = [{"userid": name, "w": sum(2 * row["v"] for row in rows if row["userid"] == name)} for name in names]
    until(lambda: not difference(house.view("sums"), sums), "the view of sums is right", pause=0.5)


CHECKS: Mapping[str, Callable[[House, Records], None]] = {
    "copied": _copied,
    "windows": _windows,
    "cities": _cities,
    "joined": _joined,
    "pairs": _pairs,
    "best": _best,
    "doubled": _doubled,
    "in_file": _in_file,
    "in_table": _in_table,
}


def windows(house: House) -> list[Row]:
    times = ("window_start", "window_end")
    rows = folded(house.records("windows"))
    return [row | {name: millis(row[name]) for name in times} for row in rows]


def until_logged(house: House, bad: Sequence[Row]) -> None:
    """The log of records that cannot be read has each of them once."""
    until(lambda: len(values(house, "events_bad_records")) >= len(bad), "bad records are in the log")
    logged = [json.loads(base64.b64decode(row["value"])) for row in values(house, "events_bad_records")]
    assert not difference(logged, bad)


def partitions(house: House, job: str) -> tuple[str, int]:
    """Partitions of a job's state: by its checkpoint's log, and as folders of its first operator."""
    (root,) = (house.state / "checkpoints").glob(f"*/{job}/v*")
    newest = max((root / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    conf = json.loads(newest.read_text().splitlines()[1])["conf"]
    folders = [path for path in (root / "state" / "0").iterdir() if path.name.isdecimal()]
    return conf["spark.sql.shuffle.partitions"], len(folders)


def check_partitions(house: House, jobs: Sequence[str]) -> None:
    """Each job's state keeps the partitions of its first start."""
    stateful = [job for job in jobs if job not in STATELESS]
    assert {job: partitions(house, job) for job in stateful} == {job: (str(CORES), CORES) for job in stateful}


def test_an_executor_is_killed_in_the_middle_of_a_batch(house: House, cluster: Standalone, feed: Feed) -> None:
    feed.send()
    check(house)
    check_partitions(house, QUICK)
    with Stream(feed.send, pause=0.5):
        until_in_batch(house, "joined")
        killed = cluster.kill_executor()
    until(lambda: len(cluster.executors()) == CORES and killed not in cluster.executors(), "a new executor runs")
    check(house)


@pytest.mark.slow
def test_jobs_are_controlled_from_another_host(
    house: House, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Dagster does it: a copy of the project elsewhere, a host of another name, the journal between them."""
    shutil.copytree(house.root, tmp_path, ignore=shutil.ignore_patterns(".ds"), dirs_exist_ok=True)
    for name in ("local.toml", "secrets/postgres"):
        (tmp_path / ".ds" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(house.state / name, tmp_path / ".ds" / name)
    written = (tmp_path / "ds.toml").read_text()
    (tmp_path / "ds.toml").write_text(written.replace("[engine]", '[engine]\nlauncher = "external"'))
    monkeypatch.setattr(socket, "gethostname", lambda: "dagster-1")
    settings = load_settings(tmp_path)
    project, control = load_project(tmp_path, settings=settings, strict=True), Control.open(settings)
    for action in ("stop", "ensure"):
        answers = control.stop(["joined"], "tests") if action == "stop" else control.ensure(project, ["joined"], action)
        wanted = {status.name: status.generation for status in answers}
        (status,) = control.wait(["joined"], wanted, WAIT)
        assert status.state == ("STOPPED" if action == "stop" else "RUNNING"), status
        feed.send()
    assert not (tmp_path / ".ds" / "checkpoints").exists()
    check(house)


@pytest.mark.slow
@pytest.mark.usefixtures("every_job")
@pytest.mark.parametrize("number", range(KILLS))
def test_something_is_killed(house: House, cluster: Standalone, feed: Feed, number: int) -> None:
    """A worker comes back with other cores; a job keeps the partitions of its first start."""
    chance = random.Random(f"{SEED}-{number}")
    victim, job = chance.choice(VICTIMS), chance.choice(JOBS)
    print(f"seed {SEED}, kill {number}: {victim} in a batch of {job}")
    with Stream(feed.send, pause=0.5):
        until_in_batch(house, job)
        kill(house, cluster, victim, chance)
    house.until_running(JOBS)
    check(house, JOBS)
    check_partitions(house, JOBS)


def kill(house: House, cluster: Standalone, victim: str, chance: random.Random) -> None:
    """kill -9, and what brings the victim back where nobody else does."""
    if victim == "executor":
        cluster.kill_executor(chance.randrange(len(cluster.executors())))
    elif victim == "worker":
        cluster.kill_worker(chance.randrange(len(cluster.workers)))
        cluster.add_worker(chance.choice((1, 2)))
    elif victim == "broker":
        house.kill_server("kafka")
        house.up("kafka")
    else:
        house.kill_engine()
        house.recover()
