"""Jobs over a Kafka broker and a Postgres server, run by test_engine.py: killed in every way, against a count kept
here."""

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
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.local.servers import postgres_password, up
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.status import JobStatus
from ds_dagster.settings import Settings

WAIT = 240.0
ROUNDS = int(os.environ.get("DS_TEST_ROUNDS", "50"))
"""How often the engine is killed in a loop."""
SECRET = "correct-horse-battery"

SQL = """
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


class Counted:
    """Counts what it sends to the jobs of a project with an engine.

    Attributes:
        control, settings: of the project, in the folder ``root``.
        project: reads it.
    """

    def __init__(self, root: Path, settings: Settings, control: Control, project: Callable[[], LoadedProject]) -> None:
        self.root = root
        self.addresses = up(root / ".ds", only=["kafka", "postgres"]).json()
        self.bootstrap = self.addresses["kafka"]["bootstrap.servers"]
        self.settings = settings
        self.control = control
        self.read = project
        self.sent: Counter[str] = Counter()
        self.next = 0

    @property
    def project(self) -> LoadedProject:
        return self.read()

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


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_whatever_is_killed(home: Counted) -> None:
    started = home.run("desktop", "visits")
    assert {status.state for status in started.values()} == {"RUNNING"}, started
    home.send(3000)
    home.until_counted()
    home.send(3000)
    os.kill(home.pid(), signal.SIGKILL)
    with deadline() as over:
        while {s.state for s in home.control.statuses(["desktop", "visits"])} != {"UNKNOWN"}:
            over()
    home.send(2000)
    home.recover()
    home.until_counted()
    home.send(3000)
    os.kill(home.jvm(), signal.SIGKILL)
    home.send(1000)
    home.recover()
    home.until_counted()
    ids = home.committed("desktop")
    assert sorted(ids) == [number for number in range(home.next) if number % 3]


def killed_while_it_runs(home: Counted) -> None:
    os.kill(home.pid(), signal.SIGKILL)


def killed_with_its_jvm(home: Counted) -> None:
    for pid in (home.pid(), home.jvm()):
        os.kill(pid, signal.SIGKILL)


def killed_again_while_it_starts(home: Counted) -> None:
    first = home.pid()
    killed_with_its_jvm(home)
    with deadline() as over:
        while home.control.ensure_engine(0).pid in (None, first):
            over()
    os.kill(home.pid(), signal.SIGKILL)


KILLS = (killed_while_it_runs, killed_with_its_jvm, killed_again_while_it_starts)


@pytest.mark.slow
def test_apply_never_takes_the_word_of_a_killed_engine(home: Counted) -> None:
    """In a loop: when ``ds apply --wait`` says that the queries run, a living engine runs them in incarnations of its
    own, although what the dead one wrote last says RUNNING too."""
    names = ["desktop", "visits"]
    assert {status.state for status in home.run(*names).values()} == {"RUNNING"}
    command = [sys.executable, "-c", "from ds_dagster.cli.main import main; main()", "apply", *names, "--json"]
    for number in range(ROUNDS):
        dead = {status.name: status.incarnation for status in home.control.statuses(names)}
        pid = home.pid()
        home.send(60)
        KILLS[number % len(KILLS)](home)
        more = ["--project", str(home.root), "--timeout", str(WAIT)]
        applied = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert applied.returncode == 0, (number, applied.stdout, applied.stderr)
        after = home.control.statuses(names)
        assert {status.state for status in after} == {"RUNNING"}, (number, after)
        assert not set(dead.values()) & {status.incarnation for status in after}, number
        assert home.pid() != pid
    home.until_counted()
    assert sorted(home.committed("desktop")) == [number for number in range(home.next) if number % 3]


def test_status_tells_what_the_query_did(home: Counted) -> None:
    status = home.run("desktop")["desktop"]
    before = status.rows
    home.send(900)
    with deadline() as over:
        while (status := home.control.status("desktop")).rows < before + 900 or status.lag_records:
            over()
    assert status.rows == before + 900
    assert status.batch is not None
    assert status.caught_up is not None
    assert status.progressed is not None


def test_a_quiet_view_is_emptied_by_the_engine(home: Counted) -> None:
    assert {status.state for status in home.run("desktop", "passing").values()} == {"RUNNING"}
    home.send(30)
    with deadline() as over:
        while not home.stored():
            over()
    with deadline() as over:
        while home.stored():
            over()
    home.control.stop(["passing"], requested_by="test")


def test_a_missing_reference_fails_that_job_only_and_needs_no_new_engine(home: Counted) -> None:
    engine = home.control.engines()[0].pid
    profile = home.root / ".ds" / "local.toml"
    overlay = profile.read_text()
    try:
        profile.write_text(overlay.replace("[kinds.kafka]", "[stores.k]"))
        failed = home.run("elsewhere")["elsewhere"]
    finally:
        profile.write_text(overlay)
    assert (failed.state, failed.condition) == ("FAILED", "ENVIRONMENT_REFERENCE_MISSING")
    assert "LATER_BROKERS" in failed.message
    assert home.control.status("desktop").state == "RUNNING"
    (home.root / ".env").write_text(f"LATER_BROKERS={home.bootstrap}\n")
    assert home.run("elsewhere")["elsewhere"].state == "RUNNING"
    assert home.control.engines()[0].pid == engine


def test_a_finite_load_loads_what_came_since_the_last_one(home: Counted) -> None:
    home.run("desktop")
    first = home.control.wait_run(home.control.request_run(home.project, "loaded", "test"), WAIT)
    assert (first.state, first.rows) == ("FINISHED", sum(home.sent.values())), first
    before = sum(home.sent.values())
    home.send(600)
    second = home.control.wait_run(home.control.request_run(home.project, "loaded", "test"), WAIT)
    assert (second.state, second.rows) == ("FINISHED", sum(home.sent.values()) - before), second


@pytest.mark.slow
def test_a_step_goes_on_where_the_engine_ended(home: Counted) -> None:
    home.run("desktop")
    home.control.wait_run(home.control.request_run(home.project, "loaded", "test"), WAIT)
    before = sum(home.sent.values())
    home.send(500)
    with deadline() as over:
        while len(home.committed("desktop")) < sum(home.sent.values()):
            over()
    program = Path(__file__).with_name("step_process.py")
    done = subprocess.run([sys.executable, program, home.root, "loaded"], capture_output=True, text=True, timeout=WAIT)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["state"], result["rows"]) == ("FINISHED", sum(home.sent.values()) - before), done.stderr[-2000:]
    assert home.control.transitions("loaded")[0].actor == "step"
    home.send(100)
    again = home.control.wait_run(home.control.request_run(home.project, "loaded", "test"), WAIT)
    assert again.state == "FINISHED", again
    assert again.rows == sum(1 for number in range(home.next - 100, home.next) if number % 3)


@pytest.mark.slow
def test_a_load_goes_on_where_a_step_was_killed(home: Counted) -> None:
    """Killed hard in its first batch, while the engine lives: nothing else knows of the checkpoint."""
    home.run("desktop")
    sent = sum(home.sent.values())
    with deadline() as over:
        while len(home.committed("desktop")) < sent:
            over()
    program = Path(__file__).with_name("step_process.py")
    step = subprocess.Popen([sys.executable, program, home.root, "killed"], stdout=subprocess.DEVNULL)
    try:
        with deadline() as over:
            while not list((home.root / ".ds" / "checkpoints").glob("*/killed/v1/offsets/0")):
                over()
    finally:
        step.kill()
        step.wait()
    with home.control.journal.write() as connection:  # a minute later
        (row,) = rows.open_requests(connection, ["killed"]).values()
        rows.save_requests(connection, [replace(row, waiting_since=time.time() - 1)])
    result = home.control.wait_run(home.control.request_run(home.project, "killed", "test"), WAIT)
    assert result.state == "FINISHED", result
    assert home.rows_of("killed") == sent


def test_stop_ends_the_query_and_restart_goes_on(home: Counted) -> None:
    home.run("desktop", "visits")
    asked = home.control.stop(["visits"], "test")
    (stopped,) = home.control.wait(["visits"], {"visits": asked[0].generation}, WAIT)
    assert stopped.state == "STOPPED"
    home.send(700)
    assert home.run("visits", action="restart")["visits"].checkpoint_version == stopped.checkpoint_version
    home.until_counted()


def test_a_checkpoint_that_is_gone_is_never_begun_anew_unasked(home: Counted) -> None:
    home.run("visits")
    home.control.wait(["visits"], {"visits": home.control.stop(["visits"])[0].generation}, WAIT)
    (folder,) = (home.root / ".ds" / "checkpoints").glob("*/visits/v*")
    shutil.move(folder, home.root / "taken")
    failed = home.run("visits")["visits"]
    assert (failed.state, failed.condition) == ("FAILED", "CHECKPOINT_MISSING")
    shutil.move(home.root / "taken", folder)
    assert home.run("visits")["visits"].state == "RUNNING"
    home.until_counted()


def test_a_bad_record_fails_its_job_for_good_and_no_other(home: Counted) -> None:
    from confluent_kafka import Producer

    home.run("visits", "desktop")
    producer = Producer({"bootstrap.servers": home.bootstrap})
    producer.produce("desktop", b'{"id": "' + SECRET.encode() + b'"', key=b"x")
    producer.flush()
    with deadline() as over:
        while (status := home.control.status("visits")).state != "FAILED":
            over()
    assert status.condition == "BAD_RECORD"
    assert home.control.status("desktop").state == "RUNNING"
    assert SECRET not in str(status)
    assert SECRET not in home.control.log_path("visits").read_text()


def test_sigterm_ends_everything(home: Counted) -> None:
    jvm = home.jvm()
    assert stop_engine(home.settings, 120)
    assert not Path(f"/proc/{jvm}").exists()
    assert home.control.engines()[0].state == "GONE"
    assert home.control.status("desktop").desired == "RUNNING"
