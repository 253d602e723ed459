"""Queries in real-time mode over a real broker, run by test_engine.py: latency, stops, kills, both modes over one
checkpoint, slots, bad records, health."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ds_dagster.orchestration.health.checks import CHECK_FUNCTIONS, Job
from ds_dagster.project.load import load_project
from ds_dagster.runtime.processes import locks
from tests.command_line import called
from tests.engine.kafka_jobs import House, failed_at
from tests.engine.spark_jobs import WAIT, deadline

CHECKPOINT_SECONDS = 5
REALTIME = f"'delivery' = 'at_least_once', 'latency.mode' = 'realtime', 'latency.checkpoint.millis' = {1000 * 5}"
SOURCE = "'store'='k', 'value.format'='json', 'topic.replicas'=1"
SQL = f"""
CREATE STREAM events (n BIGINT) WITH ({SOURCE}, 'topic'='events', 'topic.partitions'=2);
CREATE STREAM odd {{mode}} AS SELECT n, CONCAT('n', CAST(n AS VARCHAR)) AS text FROM events WHERE n % 2 = 1;
CREATE STREAM near (n BIGINT, texts ARRAY<VARCHAR>) WITH ({SOURCE}, 'topic'='near', 'topic.partitions'=1);
CREATE STREAM parts WITH ({REALTIME}) AS SELECT x.n, CAST(t.text AS INTEGER) AS k FROM near x
  WITH ('source.deserialization.error.handling' = 'IGNORE') CROSS JOIN UNNEST(x.texts) AS t(text)
  QUERY WITH ('row.error.handling' = 'IGNORE');
CREATE STREAM exact (n BIGINT) WITH ({SOURCE}, 'topic'='exact', 'topic.partitions'=1);
CREATE STREAM strict WITH ({REALTIME}) AS SELECT n FROM exact;
CREATE STREAM small (n BIGINT, CONSTRAINT few CHECK (n < 10) ON VIOLATION DROP)
  WITH ({SOURCE}, {REALTIME}, 'topic'='small', 'topic.partitions'=1);
INSERT INTO small SELECT n FROM near WITH ('source.deserialization.error.handling' = 'IGNORE')
  QUERY WITH ('query.name' = 'few');
CREATE CHANGELOG people (k VARCHAR, n BIGINT, PRIMARY KEY (k)) WITH ({SOURCE}, 'topic'='people', 'topic.partitions'=1);
CREATE CHANGELOG adults WITH ({REALTIME}) AS SELECT k, n FROM people WHERE n >= 18;
CREATE STREAM broad (n BIGINT) WITH ({SOURCE}, 'topic'='broad', 'topic.partitions'=9);
CREATE STREAM wide WITH ({REALTIME}) AS SELECT n FROM broad;
CREATE STREAM others AS SELECT n FROM near WITH ('source.deserialization.error.handling' = 'IGNORE');
"""
MICRO = ""


class Realtime(House):
    """The project, in an engine with three slots for tasks that run all the time."""

    def __init__(self, root: Path, sql: str, servers: Sequence[str]) -> None:
        """``sql``: of other jobs, with the store."""
        (root / "sql").mkdir()
        (root / "sql" / "realtime.sql").write_text(SQL.format(mode=f"WITH ({REALTIME})"))
        super().__init__(root, sql, engine='cores = 4\nmemory = "800m"\n', servers=servers)
        self.sent = 0

    def mode(self, written: str) -> None:
        """Change the mode of ``odd``."""
        (self.root / "sql" / "realtime.sql").write_text(SQL.format(mode=written))
        self.project = load_project(self.root, settings=self.settings, strict=True)

    def more(self, count: int, *, commits: bool = True) -> None:
        """Numbers in a transaction, as our own sinks write them; without a commit they are sent again."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "events"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for n in range(self.sent, self.sent + count):
            producer.produce("events", json.dumps({"n": n}).encode(), partition=n // 2 % 2)
        if not commits:
            producer.abort_transaction(30)
            return
        producer.commit_transaction(30)
        self.sent += count

    def found(self, topic: str) -> list[int]:
        from ds_dagster.stores.kafka.admin import KafkaAdmin

        admin = KafkaAdmin("k", {"bootstrap.servers": self.bootstrap})
        try:
            records = admin.records(topic, from_beginning=True, limit=100_000, stopped=lambda: False)
            return [json.loads(record.value or b"null")["n"] for record in records]
        finally:
            admin.close()

    def until_all(self) -> Sequence[int]:
        """All odd numbers sent so far have arrived; returns what has arrived."""
        wanted = set(range(1, self.sent, 2))
        with deadline() as over:
            while (found := set(self.found("odd"))) != wanted:
                assert found <= wanted
                over()
        return self.found("odd")

    def kill_engine(self) -> None:
        """kill -9 of the engine's Python, whose JVM follows it; then the next engine."""
        places = self.control.places
        os.kill(int(str(locks.holder(places.python_lock)["pid"])), signal.SIGKILL)
        with deadline() as over:
            while any(map(locks.is_held, (places.python_lock, places.jvm_lock))):
                over()
        with deadline() as over:
            while self.control.ensure_engine(WAIT).state != "RUNNING":
                over()

    def until_batches(self, name: str, more: int = 1) -> None:
        before = self.control.status(name).batches
        with deadline() as over:
            while self.control.status(name).batches < before + more:
                over()


@pytest.mark.slow
def test_records_pass_through_stops_kills_and_both_modes_over_one_checkpoint(house: Realtime) -> None:
    """None is lost, none of an aborted transaction comes; a checkpoint of either mode is read by the other."""
    status = house.run("odd")
    assert status.state == "RUNNING", status
    house.more(100)
    version = house.control.status("odd").checkpoint_version
    house.until_all()
    house.more(50, commits=False)
    house.more(100)
    house.until_all()
    house.until_batches("odd")
    house.stop("odd")
    house.more(100)
    assert house.run("odd").state == "RUNNING"
    house.until_all()
    house.more(60)
    house.kill_engine()
    house.more(60)
    house.until_all()
    house.stop("odd")
    assert house.control.status("odd").checkpoint_version == version


@pytest.mark.slow
def test_both_modes_go_on_from_one_checkpoint(house: Realtime) -> None:
    """Exactly once after real-time mode, twice: then the sink's ledger is of the run before the last one."""
    for _ in range(2):
        house.mode(f"WITH ({REALTIME})")
        house.control.ensure_engine(WAIT)
        assert house.run("odd", "restart").state == "RUNNING"
        house.more(100)
        house.until_all()
        house.until_batches("odd", 2)
        house.mode(MICRO)
        (change,) = house.control.changes(house.project, ["odd"])
        assert change.verdict == "keeps_checkpoint"
        assert "written again (at least once)" in change.hint
        status = house.run("odd", "restart")
        assert status.state == "RUNNING", status
        counted = len(house.until_all())
        house.more(40)
        house.until_all()
        assert len(house.found("odd")) == counted + 20
    house.mode(f"WITH ({REALTIME})")
    house.stop("odd")


def test_a_query_is_healthy_between_two_reports(house: Realtime) -> None:
    """While records come all the time, nothing waits, however old the last checkpoint is."""
    assert house.run("odd").state == "RUNNING"
    house.until_batches("odd", 1)
    end = time.monotonic() + 2 * CHECKPOINT_SECONDS
    while time.monotonic() < end:
        house.more(20)
        status = house.control.status("odd")
        assert status.state == "RUNNING"
        assert status.lag_records in (0, None), status
        now = house.control.clock.now()
        for name in ("running", "lag", "progress"):
            verdict = CHECK_FUNCTIONS[name](Job(status, None, now))
            assert verdict.passed, (name, verdict)
        time.sleep(0.3)
    house.until_all()
    sent = house.control.clock.now()
    with deadline() as over:  # queries that wait for all of its records go on
        while (house.control.status("odd").caught_up or 0) < sent:
            over()
    with deadline() as over:  # the lag is unknown until the broker has been asked again
        while (told := house.ps("odd"))["lag_records"] is None:
            over()
    assert (told["state"], told["rows"] > 0, told["lag_records"]) == ("RUNNING", True, 0)
    assert "at least once" in told["details"]["mode"]
    house.stop("odd")


def test_bad_records_and_rows_are_counted_and_dropped(house: Realtime) -> None:
    assert house.run("parts").state == "RUNNING"
    house.produce("near", b'{"n": 1, "texts": ["7", "x", "8"]}', b"no record", b'{"n": 20, "texts": ["9"]}')
    with deadline() as over:
        while sorted(house.found("parts")) != [1, 1, 20]:
            over()
    with deadline() as over:
        while house.ps("parts")["bad_records"] != 2:
            over()
    assert house.run("others").state == "RUNNING"  # batches go on in the slot that is kept for them
    with deadline() as over:
        while sorted(house.found("others")) != [1, 20]:
            over()
    house.stop("parts")
    house.stop("others")


def test_rows_that_violate_a_constraint_are_counted_and_dropped(house: Realtime) -> None:
    assert house.run("few").state == "RUNNING"
    with deadline() as over:
        while set(house.found("small")) != {1}:
            over()
    with deadline() as over:
        while not (violations := house.ps("few")["violations"]):
            over()
    assert next(iter(violations.values()))["rows"] == 1
    house.stop("few")


def test_a_bad_record_ends_a_strict_query_and_is_passed(house: Realtime) -> None:
    house.run("strict")
    house.produce("exact", b"no record", b'{"n": 77}')
    status, command = failed_at(house, "strict")
    assert status.condition == "BAD_RECORD", status
    assert called(house.root, *command, "--no-wait").code == 0
    with deadline() as over:
        while house.found("strict") != [77]:
            over()
    house.stop("strict")


def test_a_changelog_passes_with_its_deletes(house: Realtime) -> None:
    assert house.run("adults").state == "RUNNING"
    producer = Producer({"bootstrap.servers": house.bootstrap})
    for key, value in ((b"a", b'{"k":"a","n":20}'), (b"b", b'{"k":"b","n":30}'), (b"b", b'{"k":"b","n":3}')):
        producer.produce("people", value, key)
    producer.produce("people", None, b'{"k":"a"}')
    assert producer.flush(30) == 0
    found = house.read("adults", 4)
    assert [row and row["n"] for row in found] == [20, 30, None, None]
    house.stop("adults")


def test_tasks_that_do_not_fit_are_refused_before_they_start(house: Realtime) -> None:
    status = house.run("wide")
    assert (status.state, status.condition) == ("FAILED", "REALTIME_SLOTS"), status
    assert status.message == (
        "wide needs 9 task slots all the time, one per partition of its source, and 3 of the engine's 4 are free (one "
        "is kept for batches)"
    )
    assert "cores = 10" in status.hint


@pytest.mark.slow
def test_it_is_saved_restored_and_reset(house: Realtime, tmp_path: Path) -> None:
    """A lost checkpoint comes back from a savepoint that was taken while the query ran; its sink has no ledger, so rows
    since then are written again, by consent."""
    assert house.run("odd", "restart").state == "RUNNING"
    house.more(40)
    house.until_all()
    house.until_batches("odd", 1)
    place = (str(tmp_path), "--json")
    assert called(house.root, "savepoint", "odd", "--name", "s0", "--to", *place).code == 0
    house.more(40)
    house.until_all()
    house.stop("odd")
    version = house.control.status("odd").checkpoint_version
    (checkpoint,) = (house.root / ".ds" / "checkpoints").glob(f"*/odd/v{version}")
    shutil.move(checkpoint, tmp_path / "lost")
    house.more(40)
    refused = called(house.root, "restore", "odd", "s0", "--from", *place)
    assert "k.odd keeps no ledger" in refused.json["diagnostics"][0]["message"]
    restored = called(house.root, "restore", "odd", "s0", "--allow", "duplicates", "--from", *place)
    assert (restored.code, restored.json["how"], restored.json["state"]) == (0, "again", "RUNNING"), restored
    house.until_all()
    assert "RESET_WOULD_DOUBLE" in called(house.root, "reset", "odd").err
    counted = len(house.found("odd"))
    assert called(house.root, "reset", "odd", "--from", "now").code == 0
    house.more(10)
    house.until_all()
    assert len(house.found("odd")) == counted + 5
    assert called(house.root, "reset", "odd", "--empty").code == 0
    assert len(house.until_all()) == house.sent // 2
    house.stop("odd")
