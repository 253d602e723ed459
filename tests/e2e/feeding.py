"""One project on real servers with a real engine, fed and read by the vendors' own clients.

What was stored, with the time each server gave it, is read back by these clients: the model works on that, not on what
a test meant to send.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ds_dagster.local.servers import down, status, up
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.processes import locks
from ds_dagster.runtime.status import FiniteResult, JobStatus
from ds_dagster.settings import Settings, load_settings
from tests.engines import short_lived

ROOT = Path(__file__).parents[2]
WAIT = float(os.environ.get("DS_TEST_WAIT", "300"))
"""Seconds until something that must happen has happened, on a busy machine."""
JOURNAL = "DS_TEST_JOURNAL"
"""Variable that a project names where its journal is in its Postgres."""
KINESIS_SECRET = "marked-kinesis-secret-7f3a"
"""Given by reference; may stand in no file but the project's ``.env``."""

SETTINGS = '[engine]\ncores = 2\nmemory = "1g"\n[spark]\n"spark.sql.shuffle.partitions" = "2"\n'
"""Of a project, up to the properties of Spark."""
FEW_BATCHES = short_lived("1s")
"""More of them: queries that wait for records ask the broker once a second."""
WITHOUT_CODE = '"spark.sql.codegen.wholeStage" = "false"\n"spark.sql.codegen.factoryMode" = "NO_CODEGEN"\n'
"""Properties of an engine that generates no code, which takes a fifth less processor time with few rows. The engines of
``dagster dev``, the tutorial and the cluster generate it, as tests of operators and functions do."""
OF_THEIR_OWN = """
[stores.unreachable]
uris = "127.0.0.1:9"
"tls.disabled" = true

[stores.without_address]
"tls.disabled" = true
"""
"""Stores that keep the addresses of their own statements."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """One record as its server stored it; ``at`` is the server's time in epoch milliseconds."""

    key: str | None
    value: Row | None
    at: int
    partition: str = "0"


def until(done: Callable[[], Any], what: str | Callable[[], str], seconds: float = WAIT, pause: float = 0.3) -> Any:
    """Poll until ``done()`` is true and return it; ``what`` says what did not happen, or looks for it at the end. Most
    questions ask a server, a journal or a whole topic: a shorter pause takes more processor time than it saves."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}"
        time.sleep(pause)
    return found


class Tail:
    """Reads a topic as a read-committed consumer does; each look goes on where the last one ended. Partitions are
    assigned for a look only: a consumer that keeps them asks the broker twice a second for ever, and its next question
    waits half a second for the answer."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"tail-{time.time_ns()}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,  # the answer that a partition has no more is as late
            }
        )
        parts = self._consumer.list_topics(topic, 60).topics[topic].partitions
        self._places = [TopicPartition(topic, part) for part in parts]
        self._positions = dict.fromkeys(parts, 0)
        self._records: list[Record] = []

    def records(self) -> list[Record]:
        """Everything that is committed now."""
        ends = {place.partition: self._consumer.get_watermark_offsets(place, timeout=60)[1] for place in self._places}
        if any(self._positions[partition] < end for partition, end in ends.items()):
            self._read_to(ends)
        return list(self._records)

    def _read_to(self, ends: Mapping[int, int]) -> None:
        from confluent_kafka import TopicPartition

        limit = time.monotonic() + 60
        self._consumer.assign(
            [TopicPartition(p.topic, p.partition, self._positions[p.partition]) for p in self._places]
        )
        while any(self._positions[partition] < end for partition, end in ends.items()):
            assert time.monotonic() < limit, f"{self._positions} of {ends}"
            message = self._consumer.poll(1.0)
            if message is not None:
                self._take(message)
        self._consumer.unassign()

    def _take(self, message: Any) -> None:
        """The end of a partition is told with the offset behind transaction markers."""
        from confluent_kafka import KafkaError

        if message.error() is None:
            self._records.append(_kafka_record(message))
            self._positions[message.partition()] = message.offset() + 1
        elif message.error().code() == KafkaError._PARTITION_EOF:
            self._positions[message.partition()] = max(self._positions[message.partition()], message.offset())

    def close(self) -> None:
        self._consumer.close()


def _kafka_record(message: Any) -> Record:
    key, value = message.key(), message.value()
    return Record(
        key.decode() if key else None,
        json.loads(value) if value else None,
        message.timestamp()[1],
        str(message.partition()),
    )


class House:
    """A project, its servers and its engine."""

    def __init__(
        self,
        root: Path,
        extra: Mapping[str, str] = {},
        engine: str = "",
        settings: str = SETTINGS,
        servers: Sequence[str] = (),
    ) -> None:
        shutil.copytree(ROOT / "sql", root / "sql", dirs_exist_ok=True)
        for name, text in extra.items():
            (root / "sql" / name).write_text(text)
        (root / "ds.toml").write_text(
            'database = "clickstream_db"\nstore = "prod_kafka"\n' + settings + FEW_BATCHES + engine
        )
        lake = (root / "lake").as_uri()
        (root / ".env").write_text(f"MARKED_KINESIS_SECRET={KINESIS_SECRET}\nDS_TEST_LAKE={lake}\n")
        self.root, self.state = root, root / ".ds"
        try:
            self.up(*servers)
            if JOURNAL in settings:
                self._name_journal()
            self.settings: Settings = load_settings(root)
            self.project: LoadedProject = load_project(root, settings=self.settings, strict=True)
        except BaseException:
            down(self.state)
            raise
        self.control = Control.open(self.settings)
        self._tails: dict[str, Tail] = {}
        self._kinesis: Any = None
        self._producer: Any = None

    # -- servers and engine ------------------------------------------------------------------------------------------

    def up(self, *only: str) -> None:
        """Start the servers (again); the Kinesis secret becomes a reference to a marked one."""
        addresses = up(self.state, only=only or None)
        self.bootstrap, self.kinesis_url = addresses.kafka, addresses.kinesis
        self.postgres_url = addresses.postgres
        overlay = self.state / "local.toml"
        marked = '"kinesis.secret_access_key" = {env = "MARKED_KINESIS_SECRET"}'
        overlay.write_text(overlay.read_text().replace('"kinesis.secret_access_key" = "local"', marked) + OF_THEIR_OWN)

    def _name_journal(self) -> None:
        """The project's journal is in its Postgres."""
        assert self.postgres_url
        password = (self.state / "secrets" / "postgres").read_text().strip()
        url = self.postgres_url.replace("://", f"://postgres:{password}@")
        with (self.root / ".env").open("a") as variables:
            variables.write(f"{JOURNAL}={url}\n")

    def kill_server(self, name: str) -> None:
        """kill -9 of one server."""
        (pid,) = [found.pid for found in status(self.state) if found.name == name]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: is_dead(pid), f"{name} is dead", 60)

    def close(self) -> None:
        """End everything by its pid."""
        self._producer = None  # it would ask for the broker until this process ends
        try:
            stop_engine(self.settings, 60, kill=True)
        finally:
            down(self.state)
        for tail in self._tails.values():
            tail.close()

    def python(self) -> int:
        """Process id of the engine's Python, 0 while nobody says."""
        return int(str(locks.holder(self.control.places.python_lock).get("pid", 0)))

    def jvm(self) -> int:
        """Process id of the engine's JVM."""
        found = subprocess.run(["pgrep", "-P", str(self.python()), "java"], capture_output=True, text=True, check=True)
        return int(found.stdout.split()[0])

    def kill_engine(self) -> None:
        """kill -9 of its Python and of its JVM."""
        python, jvm = self.python(), self.jvm()
        for pid in (python, jvm):
            os.kill(pid, signal.SIGKILL)
        places = self.control.places
        until(lambda: not any(map(locks.is_held, (places.python_lock, places.jvm_lock))), "the engine is dead", 60)

    def recover(self) -> float:
        """What the sensor's ticks do until the engine is back; returns the seconds it took."""
        begin = time.monotonic()
        until(lambda: self.control.ensure_engine(WAIT).state == "RUNNING", "the engine is back")
        return time.monotonic() - begin

    # -- jobs --------------------------------------------------------------------------------------------------------

    def run(self, *names: str, action: str = "ensure") -> dict[str, JobStatus]:
        """Ask for jobs and wait until each is up or has failed."""
        asked = self.control.ensure(self.project, names, action, "tests")  # type: ignore[arg-type]
        self.control.ensure_engine(WAIT)
        found = self.control.wait(names, {one.name: one.generation for one in asked}, WAIT)
        return {one.name: one for one in found}

    def start(self, *names: str) -> None:
        """The same, and they must run."""
        found = self.run(*names)
        bad = [(s.name, s.state, s.condition, s.message, s.detail) for s in found.values() if s.state != "RUNNING"]
        assert not bad, bad

    def stop(self, *names: str) -> None:
        """Stop jobs and wait for their end."""
        asked = self.control.stop(names, "tests")
        self.control.wait(names, {one.name: one.generation for one in asked}, WAIT)

    def until_running(self, names: Sequence[str]) -> None:
        """Wait until jobs run that are wanted already."""

        def run() -> bool:
            found = self.control.statuses(names)
            failed = [(s.name, s.condition, s.message) for s in found if s.state == "FAILED"]
            assert not failed, failed
            return all(s.state == "RUNNING" for s in found)

        until(run, f"{names} run")

    def load(self, name: str, state: str = "FINISHED") -> FiniteResult:
        """One run of a finite query, which must end in this state."""
        result = self.control.wait_run(self.control.request_run(self.project, name, "tests"), WAIT)
        assert result.state == state, result
        return result

    # -- feeding -----------------------------------------------------------------------------------------------------

    @property
    def producer(self) -> Any:
        if self._producer is None:
            from confluent_kafka import Producer

            self._producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 2})
        return self._producer

    @property
    def kinesis(self) -> Any:
        if self._kinesis is None:
            import boto3

            self._kinesis = boto3.client(
                "kinesis",
                endpoint_url=self.kinesis_url,
                region_name="us-east-2",
                aws_access_key_id="local",
                aws_secret_access_key="local",
            )
        return self._kinesis

    def topic(self, name: str, partitions: int, **config: str) -> None:
        """Create a topic by hand."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(60)

    def send(self, topic: str, rows: Iterable[Row], *, key: str = "", partition: int = -1) -> None:
        """Values into a topic that exists; ``key`` names the column that becomes the record's key. What a broker loses
        that is killed meanwhile is not looked at: tests that kill one read from the topic what they expect."""
        from confluent_kafka import KafkaError

        absent = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)
        refused: list[str] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None and error.code() in absent:
                refused.append(str(error))

        for row in rows:
            text = json.dumps({key: row[key]}) if key else None
            while True:
                try:
                    self.producer.produce(topic, json.dumps(row), text, partition, delivered)
                    break
                except BufferError:
                    self.producer.poll(0.1)
        assert self.producer.flush(WAIT) == 0 and not refused, refused[:3]

    def put(self, stream: str, rows: Sequence[Row | None], *, key: str, keys: Sequence[str] = ()) -> None:
        """Values into a Kinesis stream, in order; None deletes the key of the same place in ``keys``."""
        entries = []
        for position, row in enumerate(rows):
            text = keys[position] if row is None else str(row[key])
            entries.append({"Data": b"" if row is None else json.dumps(row).encode(), "PartitionKey": text})
        for begin in range(0, len(entries), 400):
            answer = self.kinesis.put_records(StreamName=stream, Records=entries[begin : begin + 400])
            assert answer["FailedRecordCount"] == 0, answer

    # -- reading -----------------------------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Record]:
        """Everything committed in a topic."""
        if topic not in self._tails:
            self._tails[topic] = Tail(self.bootstrap, topic)
        return self._tails[topic].records()

    def reopen(self) -> None:
        """Forget clients that may have noticed the death of a server."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()
        self._producer = self._kinesis = None

    def shards(self, stream: str) -> list[str]:
        """Names of a stream's shards."""
        return [found["ShardId"] for found in self.kinesis.list_shards(StreamName=stream)["Shards"]]

    def stream_records(self, stream: str) -> list[Record]:
        """Everything in a Kinesis stream."""
        found: list[Record] = []
        for shard in self.shards(stream):
            at = self.kinesis.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
            iterator = at["ShardIterator"]
            while iterator:
                answer = self.kinesis.get_records(ShardIterator=iterator, Limit=10_000)
                found += [_kinesis_record(record, shard) for record in answer["Records"]]
                is_over = not answer["Records"] and not answer["MillisBehindLatest"]
                iterator = None if is_over else answer.get("NextShardIterator")
        return found

    def view(self, name: str) -> list[Row]:
        """Rows of a materialized view, by a plain reader of its file."""
        (path,) = (self.state / "views").glob(f"*.{name}.db")
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')]

    def table(self, sql: str) -> list[Row]:
        """Rows of Postgres."""
        with self.warehouse() as cursor:
            cursor.execute(sql)
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @contextmanager
    def warehouse(self) -> Iterator[Any]:
        """A cursor of a transaction that is committed at the end."""
        import psycopg2

        secret = (self.state / "secrets" / "postgres").read_text().strip()
        connected = psycopg2.connect(self.postgres_url, user="postgres", password=secret)
        with closing(connected) as connection, connection, connection.cursor() as cursor:
            yield cursor

    def query(self, sql: str) -> list[Row]:
        """What ``ds query`` answers, in this process."""
        from ds_dagster.questions.answers import ask_rows
        from ds_dagster.questions.binding import bind_question
        from ds_dagster.sql.script import parse_select

        return ask_rows(self.project, bind_question(self.project, parse_select(sql)))


def _kinesis_record(record: Mapping[str, Any], shard: str) -> Record:
    data = record["Data"]
    at = record["ApproximateArrivalTimestamp"].timestamp()
    return Record(record["PartitionKey"], json.loads(data) if data else None, round(at * 1000), shard)


def is_dead(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent only."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@dataclass
class Stream:
    """Sends in the background, at an even pace, until it is told to end; use as a context."""

    send: Callable[[int], None]
    pause: float = 0.05
    sent: int = 0
    _end: threading.Event = field(default_factory=threading.Event)
    _failures: list[Exception] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Stream:
        self._thread = threading.Thread(target=self._run, name="feeding", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Send no more; what was sent is stored."""
        self._end.set()
        assert self._thread is not None
        self._thread.join(WAIT)
        assert not self._failures, self._failures

    def _run(self) -> None:
        try:
            while not self._end.wait(self.pause):
                self.send(self.sent)
                self.sent += 1
        except Exception as problem:  # noqa: BLE001, told by the context's end
            self._failures.append(problem)
