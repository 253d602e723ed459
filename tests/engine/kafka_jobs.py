"""Jobs over a real broker, run by test_engine.py: lag, lost records, topics and brokers that go away under running
jobs, a chain of queries over a topic of whose sizes the SQL says nothing."""

from __future__ import annotations

import base64
import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ds_dagster.local.servers import down, up
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.status import JobStatus
from ds_dagster.settings import Settings, load_settings
from tests.command_line import called
from tests.engine.spark_jobs import WAIT, deadline
from tests.engines import SHORT_LIVED

HOUR = 3_600_000
SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STREAM backlog (n BIGINT) WITH ('store'='k', 'topic'='backlog', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1, 'kafka.topic.message.timestamp.type'='CreateTime', 'kafka.topic.retention.ms'='-1');
CREATE STREAM slow AS SELECT n FROM backlog WITH ('max.records.per.batch'=2);
CREATE STREAM cut (n BIGINT) WITH ('store'='k', 'topic'='cut', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM skipping AS SELECT n FROM cut WITH ('source.data.loss'='skip');
CREATE STREAM beyond AS SELECT n FROM cut WITH ('starting.position' = offsets, 'starting.offsets' = '0:1000');
CREATE STREAM doomed (n BIGINT) WITH ('store'='k', 'topic'='doomed', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM reader AS SELECT n FROM doomed;
CREATE STREAM poisoned (n BIGINT) WITH ('store'='k', 'topic'='poisoned', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM passed AS SELECT n FROM poisoned;
CREATE STREAM ruled (n BIGINT, CONSTRAINT small CHECK (n < 100) ON VIOLATION QUARANTINE,
  CONSTRAINT positive CHECK (n >= 0)) WITH ('store'='k', 'topic'='ruled', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM lawful AS SELECT n FROM ruled;
CREATE STREAM old (n BIGINT) WITH ('store'='k', 'topic'='old', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM again AS SELECT n FROM old;
CREATE CHANGELOG grown (k VARCHAR, n BIGINT, PRIMARY KEY (k))
  WITH ('store'='k', 'topic'='grown', 'value.format'='json');
CREATE CHANGELOG mirror AS SELECT k, n FROM grown;
CREATE FUNCTION twice(n BIGINT) RETURNS BIGINT LANGUAGE PYTHON WITH ('module' = 'functions.numbers');
CREATE STREAM numbers (n BIGINT) WITH ('store'='k', 'topic'='numbers', 'value.format'='json', 'topic.partitions'=1,
  'topic.replicas'=1);
CREATE STREAM doubled AS SELECT twice(n) AS n FROM numbers
  WITH ('source.deserialization.error.handling'='IGNORE_AND_LOG', 'source.deserialization.error.log.topic'='wrong');
CREATE STREAM src (n BIGINT) WITH ('store'='k', 'topic'='src', 'value.format'='json');
CREATE STREAM r1 AS SELECT n FROM src;
CREATE STREAM r2 AS SELECT n FROM r1;
CREATE STREAM r3 AS SELECT n FROM r2;
CREATE MATERIALIZED VIEW counts AS SELECT n, COUNT(*) AS c FROM r3 GROUP BY n;
"""
CHAIN = ("r1", "r2", "r3", "counts")
TWICE = "from functions.factor import FACTOR\n\n\ndef twice(n):\n    return n * FACTOR\n"


class House:
    """One project with servers and an engine."""

    def __init__(
        self,
        root: Path,
        sql: str = SQL,
        *,
        engine: str = 'cores = 2\nmemory = "600m"\n',
        servers: Sequence[str] = ("kafka",),
    ) -> None:
        (root / "sql").mkdir(exist_ok=True)
        (root / "sql" / "all.sql").write_text(sql)
        (root / "ds.toml").write_text(f'store = "k"\n[engine]\n{engine}[spark]\n{SHORT_LIVED}')
        (root / "functions").mkdir()
        (root / "functions" / "numbers.py").write_text(TWICE)
        (root / "functions" / "factor.py").write_text("FACTOR = 2\n")
        self.root = root
        self.addresses = up(root / ".ds", only=list(servers))
        self.bootstrap = str(self.addresses.kafka)
        self.settings: Settings = load_settings(root)
        self.project: LoadedProject = load_project(root, settings=self.settings, strict=True)
        self.control = Control.open(self.settings)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def run(self, name: str, action: Any = "ensure") -> JobStatus:
        self.control.ensure_engine(WAIT)
        (asked,) = self.control.ensure(self.project, [name], action, "test", allow=["duplicates"])
        (found,) = self.control.wait([name], {name: asked.generation}, WAIT)
        return found

    def stop(self, name: str) -> None:
        (asked,) = self.control.stop([name], "test")
        (found,) = self.control.wait([name], {name: asked.generation}, WAIT)
        assert found.state == "STOPPED"

    def send(self, topic: str, first: int, last: int, at: int | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        more: dict[str, Any] = {} if at is None else {"timestamp": at}
        for n in range(first, last):
            producer.produce(topic, json.dumps({"n": n}).encode(), **more)
        assert producer.flush(30) == 0

    def produce(self, topic: str, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(30) == 0

    def ends(self, topic: str) -> tuple[int, int]:
        """First and next offset of a topic with one partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test"})
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.close()
        return low, high

    def read(self, topic: str, count: int) -> list[Any]:
        """The first committed values of a topic with one partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[Any] = []
        with deadline() as over:
            while len(found) < count:
                over()
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    found.append(json.loads(message.value() or b"null"))
        consumer.close()
        return found

    def ps(self, name: str) -> dict[str, Any]:
        return next(job for job in called(self.root, "ps", "--json").json["jobs"] if job["name"] == name)


def test_lag_is_the_age_of_the_oldest_record_that_waits(house: House) -> None:
    for name in ("slow", "skipping", "reader"):
        assert house.run(name).state == "RUNNING"
    house.send("backlog", 0, 20_000, at=int(time.time() * 1000) - HOUR)
    with deadline() as over:
        while not (status := house.control.status("slow")).lag_seconds:
            assert status.state == "RUNNING"
            over()
    assert status.lag_records
    assert HOUR / 1000 <= status.lag_seconds < HOUR / 1000 + WAIT
    told = house.ps("slow")
    assert told["lag_seconds"] == 0.0 or told["lag_seconds"] >= HOUR / 1000
    (source,) = told["details"]["sources"].values()
    assert source["lost_records"] == 0
    house.stop("slow")


def test_what_was_skipped_is_counted_and_told(house: House) -> None:
    assert house.run("skipping").state == "RUNNING"
    house.send("cut", 0, 10)
    with deadline() as over:
        while house.control.status("skipping").rows < 10:
            over()
    house.stop("skipping")
    house.send("cut", 10, 30)
    admin = house.admin()
    for future in admin.delete_records([TopicPartition("cut", 0, 25)]).values():
        future.result(20)
    assert house.run("skipping").state == "RUNNING"
    with deadline() as over:
        while (told := house.ps("skipping"))["rows"] < 5:
            over()
    assert (told["state"], told["rows"], told["lost_records"]) == ("RUNNING", 5, 15)
    assert told["details"]["sources"]["default_public_cut"]["lost"] == "cut/0 10-24"
    log = house.control.log_path("skipping").read_text()
    assert "WARNING 15 records were gone before they were read, and skipped (default_public_cut: cut/0 10-24)" in log
    house.stop("skipping")


def test_partitions_added_to_a_changelog_are_named(house: House) -> None:
    """While the query runs, and while it did not."""
    named = "WARNING the changelog k.grown has more partitions now (grown/{})"
    _grow(house, "grown", 0)
    assert house.run("mirror").state == "RUNNING"
    with deadline() as over:
        while house.control.status("mirror").rows < 1:
            over()
    _grow(house, "grown", 1)
    _wait_for_text(house, "mirror", named.format(1))
    house.stop("mirror")
    _grow(house, "grown", 2)
    assert house.run("mirror").state == "RUNNING"
    _wait_for_text(house, "mirror", named.format(2))
    house.stop("mirror")
    log = house.control.log_path("mirror").read_text()
    assert [log.count(named.format(number)) for number in (1, 2)] == [1, 1]


def _wait_for_text(house: House, name: str, text: str) -> None:
    with deadline() as over:
        while text not in house.control.log_path(name).read_text():
            over()


def _grow(house: House, topic: str, number: int) -> None:
    """A topic whose last partition has that number, and a record in it."""
    admin = house.admin()
    there = admin.list_topics(timeout=20).topics
    if topic not in there:
        admin.create_topics([NewTopic(topic, number + 1, 1)])[topic].result(20)
    elif len(there[topic].partitions) <= number:
        admin.create_partitions([NewPartitions(topic, number + 1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": house.bootstrap})
    producer.produce(topic, json.dumps({"k": "a", "n": number}).encode(), key=b"a", partition=number)
    assert producer.flush(30) == 0


def test_an_offset_after_the_end_ends_the_first_start(house: House) -> None:
    """It waits for no record, and nobody starts it again."""
    status = house.run("beyond")
    assert (status.state, status.condition) == ("FAILED", "STARTING_OFFSET_BEYOND_END"), status


def test_a_topic_made_anew_under_a_running_job_ends_it(house: House) -> None:
    assert house.run("reader").state == "RUNNING"
    house.send("doomed", 0, 10)
    with deadline() as over:
        while house.control.status("reader").rows < 10:
            over()
    admin = house.admin()
    admin.delete_topics(["doomed"])["doomed"].result(20)
    with deadline() as over:
        while "doomed" in admin.list_topics(timeout=10).topics:
            over()
    admin.create_topics([NewTopic("doomed", 1, 1)])["doomed"].result(20)
    with deadline() as over:
        while (status := house.control.status("reader")).state != "FAILED":
            over()
    assert status.condition in ("INPUT_RECREATED", "INPUT_LOST"), status
    house.send("doomed", 100, 150)
    again = house.run("reader")
    assert (again.state, again.condition) == ("FAILED", "INPUT_RECREATED")
    assert house.run("reader", "reset").state == "RUNNING"
    with deadline() as over:
        while house.control.status("reader").rows < 50:
            over()


@pytest.mark.slow
def test_a_broker_that_is_away_for_half_a_minute(house: House) -> None:
    """Healed by the client, or backed off and started again; nothing is lost or doubled."""
    assert house.run("reader", "reset").state == "RUNNING"
    house.send("doomed", 900, 910)
    with deadline() as over:
        while 909 not in read(house, "reader"):
            over()
    before = len(read(house, "reader"))
    down(house.root / ".ds", only=["kafka"])
    gone = time.monotonic()
    states = set()
    with deadline() as over:
        while time.monotonic() - gone < 30:
            states.add(house.control.status("reader").state)
            over()
    assert states <= {"RUNNING", "BACKING_OFF", "STARTING"}, states
    up(house.root / ".ds", only=["kafka"])
    house.send("doomed", 1000, 1020)
    with deadline() as over:
        while len(read(house, "reader")) < before + 20:
            over()
    assert house.control.status("reader").state == "RUNNING"
    assert sorted(read(house, "reader"))[-20:] == list(range(1000, 1020))


def read(house: House, topic: str) -> list[int]:
    from ds_dagster.stores.kafka.admin import KafkaAdmin

    admin = KafkaAdmin("k", {"bootstrap.servers": house.bootstrap})
    try:
        found = admin.records(topic, from_beginning=True, limit=100_000, stopped=lambda: False)
        return [json.loads(record.value or b"null")["n"] for record in found]
    finally:
        admin.close()


def test_bad_records_go_into_a_topic_that_the_job_makes_and_functions_of_the_project_run(house: House) -> None:
    assert house.run("doubled").state == "RUNNING"
    house.send("numbers", 0, 3)
    producer = Producer({"bootstrap.servers": house.bootstrap})
    producer.produce("numbers", b"no number", key=b"k")
    assert producer.flush(30) == 0
    house.send("numbers", 3, 4)
    assert house.read("doubled", 4) == [{"n": 0}, {"n": 2}, {"n": 4}, {"n": 6}]
    (bad,) = house.read("wrong", 1)
    told = {name: bad[name] for name in ("query", "store", "entity", "partition", "offset")}
    assert told == {"query": "doubled", "store": "k", "entity": "numbers", "partition": "0", "offset": "3"}
    assert [base64.b64decode(bad[part]) for part in ("key", "value")] == [b"k", b"no number"]
    with deadline() as over:
        while house.ps("doubled")["bad_records"] != 1:
            over()
    house.stop("doubled")


def failed_at(house: House, name: str) -> tuple[JobStatus, list[str]]:
    """A job that has failed at a record, and the command its hint says."""
    with deadline() as over:
        while (status := house.control.status(name)).state != "FAILED":
            over()
    command = status.hint.partition("`ds ")[2].partition("`")[0]
    return status, shlex.split(command)


def test_rows_that_break_a_rule_are_put_aside_once_and_a_record_that_ends_the_job_is_passed(house: House) -> None:
    assert house.run("lawful").state == "RUNNING"
    house.send("ruled", 98, 101)
    assert [row["n"] for row in house.read("lawful", 2)] == [98, 99]
    (aside,) = house.read("ruled_quarantine", 1)
    place = {name: aside[name] for name in ("query", "store", "entity", "partition", "offset", "reason")}
    assert place == {
        "query": "lawful", "store": "k", "entity": "ruled", "partition": "0", "offset": "2", "reason": "violates small",
    }  # fmt: skip
    assert json.loads(base64.b64decode(aside["value"])) == {"n": 100}
    with deadline() as over:
        while not (violations := house.ps("lawful")["violations"]):
            over()
    assert list(violations.values()) == [{"rows": 1, "sample": "0/2"}]
    house.send("ruled", -1, 2)
    status, command = failed_at(house, "lawful")
    assert (status.condition, command) == (
        "CONSTRAINT_VIOLATED",
        ["skip", "lawful", "--partition", "0", "--offset", "3"],
    )
    assert called(house.root, *command, "--no-wait").code == 0
    assert [row["n"] for row in house.read("lawful", 4)] == [98, 99, 0, 1]
    house.send("ruled", 200, 201)
    assert [row["offset"] for row in house.read("ruled_quarantine", 2)] == ["2", "6"]
    house.stop("lawful")


def test_what_was_passed_or_reset_stays_so_when_the_engine_is_killed(house: House) -> None:
    """One kill for both: a start of the engine takes as long as either of them."""
    reset_twice(house)
    pass_two_records(house)
    house.send("poisoned", 6, 8)
    assert sorted(row["n"] for row in house.read("passed", 8)) == list(range(8))
    assert house.control.status("passed").checkpoint_version == 1
    house.send("old", 5, 6)
    assert sorted(row["n"] for row in house.read("again", 6)) == [0, 1, 2, 3, 4, 5]
    assert house.control.status("again").checkpoint_version == 3
    for name in ("passed", "again"):
        house.stop(name)


def pass_two_records(house: House) -> None:
    """Two records that cannot be read are passed, the second one while there is no engine: the next one goes on behind
    both. No other row is lost or doubled."""
    assert house.run("passed").state == "RUNNING"
    assert "SKIP_WITHOUT_RECORD" in called(house.root, "skip", "passed", "--partition", "0", "--offset", "3").err
    house.send("poisoned", 0, 3)
    house.produce("poisoned", b"{broken", b"{broken too")
    house.send("poisoned", 3, 6)
    status, command = failed_at(house, "passed")
    assert status.condition == "BAD_RECORD"
    assert command == ["skip", "passed", "--partition", "0", "--offset", "3"]
    for wrong in (["--partition", "1", "--offset", "3"], ["--partition", "0", "--offset", "4"]):
        refused = called(house.root, "skip", "passed", *wrong)
        assert refused.code == 1
        assert "ds skip passed --partition 0 --offset '3'" in refused.err
    called(house.root, *command, "--reason", "ticket 7")
    status, command = failed_at(house, "passed")
    assert command[-1] == "4"
    asked = next(moved for moved in house.control.transitions("passed") if moved.kind == "desired")
    assert asked.reason == "skip of record 3 of partition 0 of k.poisoned: ticket 7"
    assert asked.actor.startswith("ds (")
    stop_engine(house.settings, 60, kill=True)
    assert called(house.root, *command, "--no-wait").code == 0
    again = called(house.root, *command, "--json")
    assert (again.code, again.json["outcome"]) == (0, "nothing")
    assert sorted(row["n"] for row in house.read("passed", 6)) == list(range(6))


def reset_twice(house: House) -> None:
    """A reset from now, and one that empties, write no row twice."""
    assert house.run("again").state == "RUNNING"
    house.send("old", 0, 3)
    assert sorted(row["n"] for row in house.read("again", 3)) == [0, 1, 2]
    assert "RESET_WOULD_DOUBLE" in called(house.root, "reset", "again").err
    now = called(house.root, "reset", "again", "--from", "now")
    assert now.code == 0, now.err
    assert "from now" in now.err
    house.send("old", 3, 5)
    assert sorted(row["n"] for row in house.read("again", 5)) == [0, 1, 2, 3, 4]
    emptied = called(house.root, "reset", "again", "--empty")
    assert emptied.code == 0, emptied.err
    low, _ = house.ends("again")
    assert low > 0, "its former records are deleted"
    assert sorted(row["n"] for row in house.read("again", 5)) == [0, 1, 2, 3, 4]


def test_a_chain_of_queries_waits_for_its_writers_and_is_applied_in_one_go(house: House) -> None:
    admin = house.admin()
    admin.create_topics([NewTopic("src", 3, 1)])["src"].result(30)
    house.control.ensure_engine(WAIT)
    house.control.ensure(house.project, ["r2"])
    with deadline() as over:
        while (waiting := house.control.status("r2")).state != "WAITING":
            over()
    assert (waiting.condition, "waits for r1" in waiting.message) == ("WAITS_FOR_WRITER", True)
    assert "r1" not in admin.list_topics(timeout=30).topics, "a reader makes nothing"
    applied = called(house.root, "apply", *CHAIN, "--timeout", str(WAIT))
    assert applied.code == 0, applied.err
    assert {house.control.status(name).state for name in CHAIN} == {"RUNNING"}
    topics = admin.list_topics(timeout=30).topics
    assert {name: len(topics[name].partitions) for name in CHAIN[:3]} == {"r1": 3, "r2": 3, "r3": 3}
    assert not [t for name in CHAIN for t in house.control.transitions(name) if t.target == "FAILED"]
    for name in CHAIN:
        house.stop(name)
