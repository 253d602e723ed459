"""The real engine: Spark, a Kafka broker and a Postgres server, killed in every way, against a count kept here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.local.servers import down, postgres_password, up
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.status import JobStatus
from ds_dagster.settings import Settings, load_settings
from tests.engines import SHORT_LIVED

pytestmark = [pytest.mark.servers, pytest.mark.spark]
WAIT = 240.0
ROUNDS = int(os.environ.get("DS_TEST_ROUNDS", "50"))
"""How often the engine is killed in a loop."""
SECRET = "correct-horse-battery"

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE later WITH ('type' = KAFKA, 'uris' = '${LATER_BROKERS}');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/postgres',
  'postgres.username' = 'u', 'postgres.password' = '${PG_PASSWORD}');
CREATE STREAM clicks (id BIGINT, device VARCHAR, url VARCHAR)
  WITH ('store'='k', 'topic'='clicks', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM desktop AS SELECT * FROM clicks WHERE device = 'desktop';
CREATE MATERIALIZED VIEW visits AS SELECT url, count(*) AS n FROM desktop GROUP BY url;
CREATE MATERIALIZED VIEW passing WITH ('retention.millis' = 3000) AS SELECT id FROM desktop;
CREATE STREAM elsewhere WITH ('store'='later', 'topic.partitions'=1, 'topic.replicas'=1) AS SELECT id FROM clicks;
CREATE TABLE loaded WITH ('store'='pg', 'postgresql.db.name'='postgres', 'postgresql.schema.name'='public',
  'postgresql.table.name'='loaded') AS SELECT id, url FROM desktop;
CREATE TABLE killed WITH ('store'='pg', 'postgresql.db.name'='postgres', 'postgresql.schema.name'='public',
  'postgresql.table.name'='killed') AS SELECT id, url FROM desktop;
"""


class House:
    """One project with servers and engine; counts what it sends."""

    def __init__(self, root: Path) -> None:
        (root / "sql").mkdir()
        (root / "sql" / "all.sql").write_text(SQL)
        (root / "ds.toml").write_text('store = "k"\n[engine]\ncores = 2\nmemory = "700m"\n[spark]\n' + SHORT_LIVED)
        self.root = root
        self.addresses = up(root / ".ds", only=["kafka", "postgres"]).json()
        self.bootstrap = self.addresses["kafka"]["bootstrap.servers"]
        self.settings: Settings = load_settings(root)
        self.project: LoadedProject = load_project(root, settings=self.settings, strict=True)
        self.control = Control.open(self.settings)
        self.sent: Counter[str] = Counter()
        self.next = 0

    def send(self, count: int) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.next, self.next + count):
            device, url = ("desktop" if number % 3 else "mobile"), f"/{number % 7}"
            producer.produce("clicks", json.dumps({"id": number, "device": device, "url": url}), key=str(number))
            if device == "desktop":
                self.sent[url] += 1
        self.next += count
        producer.flush()

    def run(self, *names: str, action: str = "ensure") -> dict[str, JobStatus]:
        self.control.ensure_engine(WAIT)
        asked = self.control.ensure(self.project, names, action, "test")  # type: ignore[arg-type]
        found = self.control.wait(names, {one.name: one.generation for one in asked}, WAIT)
        return {status.name: status for status in found}

    def recover(self) -> None:
        """The engine is gone: what the sensor does."""
        with deadline() as over:
            while self.control.engines()[0].state not in ("GONE", "STOPPING"):
                over()
        self.control.ensure_engine(WAIT)

    def stored(self) -> int:
        """Rows in the file of the view that forgets."""
        (path,) = (self.root / ".ds" / "views").glob("*passing.db")
        with closing(sqlite3.connect(path)) as connection:
            return int(connection.execute("SELECT count(*) FROM passing").fetchone()[0])

    def rows_of(self, table: str) -> int:
        """Rows of a table in Postgres."""
        import psycopg2
        from psycopg2 import sql

        with closing(
            psycopg2.connect(
                self.addresses["postgres"]["url"], user="postgres", password=postgres_password(self.root / ".ds")
            )
        ) as connection:
            cursor = connection.cursor()
            cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
            return int(cursor.fetchone()[0])

    def view(self) -> dict[str, int]:
        (path,) = (self.root / ".ds" / "views").glob("*visits.db")
        with closing(sqlite3.connect(path)) as connection:
            return dict(connection.execute("SELECT url, n FROM visits").fetchall())

    def until_counted(self) -> None:
        """The view shows exactly what was sent, and stays so when everything has come to rest."""
        with deadline() as over:
            while self.view() != dict(self.sent):
                assert all(count <= self.sent[url] for url, count in self.view().items()), "counted twice"
                over()

    def committed(self, topic: str) -> list[int]:
        """Ids a read-committed consumer sees."""
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"test-{time.time_ns()}",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        ids: list[int] = []
        ended: set[int] = set()
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.subscribe([topic])
        with deadline() as over:
            while len(ended) < len(partitions):
                message = consumer.poll(1.0)
                if message is None:
                    over()
                elif message.error():
                    ended.add(message.partition())
                else:
                    ids.append(json.loads(message.value())["id"])
        consumer.close()
        return ids

    def pid(self) -> int:
        return int(str(locks.holder(self.control.places.python_lock)["pid"]))

    def jvm(self) -> int:
        children = subprocess.run(["pgrep", "-P", str(self.pid()), "java"], capture_output=True, text=True, check=True)
        return int(children.stdout.split()[0])


class deadline:  # noqa: N801, reads as a word
    """``with deadline() as over: while not done: over()``."""

    def __enter__(self) -> deadline:
        self.end = time.monotonic() + WAIT
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to give back."""

    def __call__(self) -> None:
        assert time.monotonic() < self.end, "time is over"
        time.sleep(0.25)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("project"))
    yield made
    stop_engine(made.settings, 60, kill=True)
    down(made.root / ".ds")


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_whatever_is_killed(house: House) -> None:
    started = house.run("desktop", "visits")
    assert {status.state for status in started.values()} == {"RUNNING"}, started
    house.send(3000)
    house.until_counted()
    house.send(3000)
    os.kill(house.pid(), signal.SIGKILL)
    with deadline() as over:
        while {s.state for s in house.control.statuses(["desktop", "visits"])} != {"UNKNOWN"}:
            over()
    house.send(2000)
    house.recover()
    house.until_counted()
    house.send(3000)
    os.kill(house.jvm(), signal.SIGKILL)
    house.send(1000)
    house.recover()
    house.until_counted()
    ids = house.committed("desktop")
    assert sorted(ids) == [number for number in range(house.next) if number % 3]


def killed_while_it_runs(house: House) -> None:
    os.kill(house.pid(), signal.SIGKILL)


def killed_with_its_jvm(house: House) -> None:
    for pid in (house.pid(), house.jvm()):
        os.kill(pid, signal.SIGKILL)


def killed_again_while_it_starts(house: House) -> None:
    first = house.pid()
    killed_with_its_jvm(house)
    with deadline() as over:
        while house.control.ensure_engine(0).pid in (None, first):
            over()
    os.kill(house.pid(), signal.SIGKILL)


KILLS = (killed_while_it_runs, killed_with_its_jvm, killed_again_while_it_starts)


@pytest.mark.slow
def test_apply_never_takes_the_word_of_a_killed_engine(house: House) -> None:
    """In a loop: when ``ds apply --wait`` says that the queries run, a living engine runs them in incarnations of its
    own, although what the dead one wrote last says RUNNING too."""
    names = ["desktop", "visits"]
    assert {status.state for status in house.run(*names).values()} == {"RUNNING"}
    command = [sys.executable, "-c", "from ds_dagster.cli.main import main; main()", "apply", *names, "--json"]
    for number in range(ROUNDS):
        dead = {status.name: status.incarnation for status in house.control.statuses(names)}
        pid = house.pid()
        house.send(60)
        KILLS[number % len(KILLS)](house)
        more = ["--project", str(house.root), "--timeout", str(WAIT)]
        applied = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert applied.returncode == 0, (number, applied.stdout, applied.stderr)
        after = house.control.statuses(names)
        assert {status.state for status in after} == {"RUNNING"}, (number, after)
        assert not set(dead.values()) & {status.incarnation for status in after}, number
        assert house.pid() != pid
    house.until_counted()
    assert sorted(house.committed("desktop")) == [number for number in range(house.next) if number % 3]


def test_status_tells_what_the_query_did(house: House) -> None:
    status = house.run("desktop")["desktop"]
    before = status.rows
    house.send(900)
    with deadline() as over:
        while (status := house.control.status("desktop")).rows < before + 900 or status.lag_records:
            over()
    assert status.rows == before + 900
    assert status.batch is not None
    assert status.caught_up is not None
    assert status.progressed is not None


def test_a_quiet_view_is_emptied_by_the_engine(house: House) -> None:
    assert {status.state for status in house.run("desktop", "passing").values()} == {"RUNNING"}
    house.send(30)
    with deadline() as over:
        while not house.stored():
            over()
    with deadline() as over:
        while house.stored():
            over()
    house.control.stop(["passing"], requested_by="test")


def test_a_missing_reference_fails_that_job_only_and_needs_no_new_engine(house: House) -> None:
    engine = house.control.engines()[0].pid
    profile = house.root / ".ds" / "local.toml"
    overlay = profile.read_text()
    try:
        profile.write_text(overlay.replace("[kinds.kafka]", "[stores.k]"))
        failed = house.run("elsewhere")["elsewhere"]
    finally:
        profile.write_text(overlay)
    assert (failed.state, failed.condition) == ("FAILED", "ENVIRONMENT_REFERENCE_MISSING")
    assert "LATER_BROKERS" in failed.message
    assert house.control.status("desktop").state == "RUNNING"
    (house.root / ".env").write_text(f"LATER_BROKERS={house.bootstrap}\n")
    assert house.run("elsewhere")["elsewhere"].state == "RUNNING"
    assert house.control.engines()[0].pid == engine


def test_a_finite_load_loads_what_came_since_the_last_one(house: House) -> None:
    house.run("desktop")
    first = house.control.wait_run(house.control.request_run(house.project, "loaded", "test"), WAIT)
    assert (first.state, first.rows) == ("FINISHED", sum(house.sent.values())), first
    before = sum(house.sent.values())
    house.send(600)
    second = house.control.wait_run(house.control.request_run(house.project, "loaded", "test"), WAIT)
    assert (second.state, second.rows) == ("FINISHED", sum(house.sent.values()) - before), second


@pytest.mark.slow
def test_a_step_goes_on_where_the_engine_ended(house: House) -> None:
    house.run("desktop")
    house.control.wait_run(house.control.request_run(house.project, "loaded", "test"), WAIT)
    before = sum(house.sent.values())
    house.send(500)
    with deadline() as over:
        while len(house.committed("desktop")) < sum(house.sent.values()):
            over()
    program = Path(__file__).with_name("step_process.py")
    done = subprocess.run([sys.executable, program, house.root, "loaded"], capture_output=True, text=True, timeout=WAIT)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["state"], result["rows"]) == ("FINISHED", sum(house.sent.values()) - before), done.stderr[-2000:]
    assert house.control.transitions("loaded")[0].actor == "step"
    house.send(100)
    again = house.control.wait_run(house.control.request_run(house.project, "loaded", "test"), WAIT)
    assert again.state == "FINISHED", again
    assert again.rows == sum(1 for number in range(house.next - 100, house.next) if number % 3)


@pytest.mark.slow
def test_a_load_goes_on_where_a_step_was_killed(house: House) -> None:
    """Killed hard in its first batch, while the engine lives: nothing else knows of the checkpoint."""
    house.run("desktop")
    sent = sum(house.sent.values())
    with deadline() as over:
        while len(house.committed("desktop")) < sent:
            over()
    program = Path(__file__).with_name("step_process.py")
    step = subprocess.Popen([sys.executable, program, house.root, "killed"], stdout=subprocess.DEVNULL)
    try:
        with deadline() as over:
            while not list((house.root / ".ds" / "checkpoints").glob("*/killed/v1/offsets/0")):
                over()
    finally:
        step.kill()
        step.wait()
    with house.control.journal.write() as connection:  # a minute later
        (row,) = rows.open_requests(connection, ["killed"]).values()
        rows.save_requests(connection, [replace(row, waiting_since=time.time() - 1)])
    result = house.control.wait_run(house.control.request_run(house.project, "killed", "test"), WAIT)
    assert result.state == "FINISHED", result
    assert house.rows_of("killed") == sent


def test_stop_ends_the_query_and_restart_goes_on(house: House) -> None:
    house.run("desktop", "visits")
    asked = house.control.stop(["visits"], "test")
    (stopped,) = house.control.wait(["visits"], {"visits": asked[0].generation}, WAIT)
    assert stopped.state == "STOPPED"
    house.send(700)
    assert house.run("visits", action="restart")["visits"].checkpoint_version == stopped.checkpoint_version
    house.until_counted()


def test_a_checkpoint_that_is_gone_is_never_begun_anew_unasked(house: House) -> None:
    house.run("visits")
    house.control.wait(["visits"], {"visits": house.control.stop(["visits"])[0].generation}, WAIT)
    (folder,) = (house.root / ".ds" / "checkpoints").glob("*/visits/v*")
    shutil.move(folder, house.root / "taken")
    failed = house.run("visits")["visits"]
    assert (failed.state, failed.condition) == ("FAILED", "CHECKPOINT_MISSING")
    shutil.move(house.root / "taken", folder)
    assert house.run("visits")["visits"].state == "RUNNING"
    house.until_counted()


def test_a_bad_record_fails_its_job_for_good_and_no_other(house: House) -> None:
    from confluent_kafka import Producer

    house.run("visits", "desktop")
    producer = Producer({"bootstrap.servers": house.bootstrap})
    producer.produce("desktop", b'{"id": "' + SECRET.encode() + b'"', key=b"x")
    producer.flush()
    with deadline() as over:
        while (status := house.control.status("visits")).state != "FAILED":
            over()
    assert status.condition == "BAD_RECORD"
    assert house.control.status("desktop").state == "RUNNING"
    assert SECRET not in str(status)
    assert SECRET not in house.control.log_path("visits").read_text()


def test_sigterm_ends_everything(house: House) -> None:
    jvm = house.jvm()
    assert stop_engine(house.settings, 120)
    assert not Path(f"/proc/{jvm}").exists()
    assert house.control.engines()[0].state == "GONE"
    assert house.control.status("desktop").desired == "RUNNING"
