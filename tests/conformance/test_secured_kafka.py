"""Every way to log in, through all four clients: Spark's source, our sink, the engine's clock, librdkafka; and, first,
what people get wrong (stores/kafka/faults.py), on the same broker."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, NewPartitions, NewTopic, ResourceType
from cryptography.hazmat.primitives import serialization
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.catalog.store import ReadOptions, StoreAdmin
from ds_dagster.errors import DsError
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.spark.queries.query import Trigger
from ds_dagster.spark.session import active
from ds_dagster.stores.kafka.admin import KafkaAdmin
from ds_dagster.stores.kafka.kind import Kafka
from ds_dagster.stores.registry import KINDS
from tests.conformance.conftest import patient
from tests.secured_kafka import LOGIN_NAMES, PASSWORD, POOR, POOR_PASSWORD, SecuredKafka, secured_kafka
from tests.stores.kafka import faults

pytestmark = [pytest.mark.conformance, pytest.mark.servers]
DEADLINE = 90.0
KAFKA = KINDS["KAFKA"]
LONG = {"sha256": pytest.mark.slow}
"""Logins that only the long tier runs a query with: for all clients it is sha512 with another name."""
SECRETS = ("sha512", "oauth", "mutual by text")
"""Logins whose secrets are looked for in what a run leaves."""
BY_REFERENCE = ("kafka.sasl.password", "kafka.sasl.oauth.client_secret", "tls.client.key", "tls.client.key_password")
WINDOWS = """
CREATE STREAM events_{id} (n BIGINT) WITH ('topic' = 'events_{id}', 'value.format' = 'json', 'topic.partitions' = 2,
  'topic.replicas' = 1, 'kafka.topic.message.timestamp.type' = 'LogAppendTime',
  'kafka.topic.max.message.bytes' = '654321');
CREATE CHANGELOG out_{id} AS SELECT window_start, window_end, SUM(n) AS total FROM TUMBLE(events_{id}, SIZE 1 SECONDS)
  GROUP BY window_start, window_end;
"""
ROWS = """
CREATE STREAM events_{id} (n BIGINT) WITH ('topic' = 'events_{id}', 'value.format' = 'json', 'topic.partitions' = 2,
  'topic.replicas' = 1);
CREATE STREAM out_{id} AS SELECT n FROM events_{id};
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as made:
        yield made


globals().update({name: found for name, found in vars(faults).items() if name.startswith("test_")})


@dataclass
class World:
    """Queries over one store of the secured broker."""

    spark: SparkSession
    folder: Path
    broker: SecuredKafka
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    running: list[tuple[PreparedQuery, StreamingQuery]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    project: LoadedProject | None = None

    def compile(self, properties: Mapping[str, str], sql: str) -> None:
        settings = Settings(root=self.folder, sql=self.folder, state=self.folder, store="k")
        text = self.create_store(properties) + sql.replace("{id}", self.id)
        self.project = compile_texts([("test.sql", text)], settings)
        assert not self.project.diagnostics, "\n".join(found.text() for found in self.project.diagnostics)

    def create_store(self, properties: Mapping[str, str]) -> str:
        """Secrets and long texts by reference, as people are told to."""
        written = ["'type' = KAFKA"]
        for name, value in properties.items():
            text = value
            if name in BY_REFERENCE or "\n" in value:
                reference = name.replace(".", "_").upper()
                self.environment[reference] = value
                text = "${" + reference + "}"
            written.append(f"'{name}' = '{text}'")
        return f"CREATE STORE k WITH ({', '.join(written)});"

    def resolve(self, value: PropertyValue) -> str:
        return resolve(value, self.environment, "store k")

    def admin(self) -> StoreAdmin:
        assert self.project is not None
        return KAFKA.admin(self.project.catalog.store("k"), self.resolve)

    def ensure(self) -> None:
        assert self.project is not None
        with closing(self.admin()) as admin:
            for relation in self.project.catalog.relations.values():
                admin.ensure(KAFKA.entity_plan(relation))

    def start(self, trigger: Trigger = "continuous", version: int = 1) -> StreamingQuery:
        assert self.project is not None
        (query,) = self.project.queries.values()
        store = self.project.catalog.store("k")
        reads = {s.source_name: KAFKA.read_spec(store, s.relation, ReadOptions(), self.facts(s)) for s in query.scans}
        prepared = prepare(
            self.spark,
            query,
            reads=reads,
            writes={query.name: KAFKA.write_spec(store, query.sink, query.refresh)},
            identity=SinkIdentity(f"test/{query.name}", version),
            resolve=self.resolve,
            job_name=query.name,
        )
        patient(prepared)
        started = face.start(prepared, str(self.folder / f"checkpoint-{version}"), trigger)
        self.running.append((prepared, started))
        return started

    def facts(self, scan: Scan) -> EntityFacts | None:
        """As the super user, so that what a job's own user may not do shows in the job."""
        with closing(KafkaAdmin("k", {"bootstrap.servers": self.broker.plain})) as admin:
            return admin.describe(scan.relation.entity)

    def send(self, first: int, last: int, **options: Any) -> None:
        """Numbers into the source topic, by a client with the store's own settings."""
        assert self.project is not None
        made = Kafka().client_settings(self.project.catalog.store("k"), self.resolve)
        failed: list[KafkaError] = []
        producer = Producer(dict(made))
        for n in range(first, last):
            value = json.dumps({"n": n}).encode()
            producer.produce(
                f"events_{self.id}", value, on_delivery=lambda e, _m: failed.append(e) if e else None, **options
            )
        assert producer.flush(30) == 0
        assert not failed, failed

    def read(self) -> list[Any]:
        """Committed values of the sink topic."""
        with closing(self.admin()) as admin:
            found = admin.records(f"out_{self.id}", from_beginning=True, limit=100_000, stopped=lambda: False)
            return [json.loads(record.value or b"null") for record in found]

    def wait(self, check: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not check():
            for prepared, query in self.running:
                fault = None if query.isActive else face.failure(prepared, query)
                assert fault is None, str(fault)
            assert time.monotonic() < end, "the deadline passed"
            time.sleep(0.3)

    def refusal(self) -> DsError:
        """Why a query does not start, or ends."""
        try:
            self.start("available_now")
        except DsError as problem:
            return problem
        return self.fault()

    def fault(self) -> DsError:
        """Why the last query ended; waits until it has."""
        prepared, query = self.running[-1]
        end = time.monotonic() + DEADLINE
        while query.isActive:
            assert time.monotonic() < end, "the query goes on"
            time.sleep(0.05)
        found = face.failure(prepared, query)
        assert found is not None
        return found

    def stop(self) -> None:
        for prepared, query in self.running:
            query.stop()
            face.close(prepared)
        self.running.clear()


@pytest.fixture
def world(spark: SparkSession, broker: SecuredKafka, tmp_path: Path) -> Iterator[World]:
    made = World(spark, tmp_path, broker)
    yield made
    made.stop()


@pytest.mark.parametrize("login", [pytest.param(name, marks=LONG.get(name, [])) for name in LOGIN_NAMES])
def test_every_login_reads_tells_time_and_writes(world: World, login: str) -> None:
    """A window in arrival time closes only if source, clock, sink and control all get through. No secret stands in what
    the run leaves."""
    world.compile(world.broker.logins()[login], WINDOWS)
    world.ensure()
    world.send(0, 40)
    with everything_logged(world.spark, world.folder / "spark.log") if login in SECRETS else nullcontext():
        query = world.start()
        world.wait(lambda: sum(row["total"] for row in world.read()) == sum(range(40)))
    with closing(world.admin()) as admin:
        facts = admin.describe(f"events_{world.id}")
        assert facts is not None
        assert facts.settings["max.message.bytes"] == "654321"
        assert admin.probe().ok
        assert {f"events_{world.id}", f"out_{world.id}"} <= {found.name for found in admin.entities()}
        assert admin.end_reached(f"events_{world.id}", {}) == 40
    if login in SECRETS:
        no_secret_stands_in_what_is_left(world, query)


def test_nothing_is_doubled_or_lost_over_a_restart(world: World) -> None:
    world.compile(world.broker.user("sha512"), ROWS)
    world.ensure()
    for first in (0, 100, 200):
        world.send(first, first + 100)
        assert world.start("available_now").awaitTermination(120)
        world.stop()
    assert sorted(row["n"] for row in world.read()) == list(range(300))


# --- what is refused, and who has to do something about it ------------------------------------------------------------


def allow(world: World, *more: tuple[ResourceType, str, AclOperation]) -> None:
    world.broker.allow(*((POOR, kind, name, operation) for kind, name, operation in more))


def test_each_missing_grant_is_the_users(world: World) -> None:
    """Granted one by one; each start gets one step further and is told what is missing."""
    world.compile(world.broker.user("sha256"), ROWS)
    world.ensure()
    world.send(0, 10)
    world.compile(world.broker.user("sha256", POOR, POOR_PASSWORD), ROWS)
    source, sink, job = f"events_{world.id}", f"out_{world.id}", f"test/out_{world.id}"
    with closing(world.admin()) as admin, pytest.raises(DsError) as denied:
        admin.describe(source)
    assert (denied.value.condition, denied.value.fault.hint) == ("STORE_PERMISSION_DENIED", "never")
    assert source in denied.value.message
    grants = [
        (ResourceType.TOPIC, source, AclOperation.READ),
        (ResourceType.TOPIC, sink, AclOperation.WRITE),
        (ResourceType.TRANSACTIONAL_ID, f"{job}*", AclOperation.WRITE),
        (ResourceType.GROUP, f"{job}/v1", AclOperation.READ),
        (ResourceType.TOPIC, sink, AclOperation.READ),
    ]
    for grant in grants:
        fault = world.refusal()
        world.stop()
        assert (fault.condition, fault.fault.hint) == ("KAFKA_NOT_ALLOWED", "never"), (grant, fault)
        assert f"k.{source}, k.{sink}" in fault.message
        allow(world, grant)
    assert world.start("available_now").awaitTermination(120)
    world.stop()
    with pytest.raises(DsError) as denied:
        world.read()
    assert denied.value.condition == "STORE_PERMISSION_DENIED"
    assert f"read records of {sink} as consumer group ds-dagster-print" in denied.value.message
    with closing(KAFKA.admin(world.project.catalog.store("k"), world.resolve)) as looking:  # type: ignore[union-attr]
        found = looking.lag(source, {})
        assert (found.records, found.oldest_millis is not None) == (10, True), "lag needs no grant on a group"
    allow(world, (ResourceType.GROUP, "ds-dagster-print", AclOperation.READ))
    assert sorted(row["n"] for row in world.read()) == list(range(10))


def test_a_rotated_password_ends_the_job(world: World) -> None:
    world.compile(world.broker.user("sha512"), ROWS)
    world.ensure()
    world.send(0, 10)
    world.environment["KAFKA_SASL_PASSWORD"] = "another-password"
    fault = world.refusal()
    assert (fault.condition, fault.fault.hint) == ("KAFKA_LOGIN_REFUSED", "never"), fault
    assert f"k.events_{world.id}" in fault.message
    assert PASSWORD not in str(fault)


def test_certificates_and_keys_that_java_cannot_use(world: World) -> None:
    world.compile(world.broker.user("sha512"), ROWS)
    world.ensure()
    properties = world.broker.mutual()
    key = Path(properties["tls.client.key_file"])
    (world.folder / "odd.key").write_bytes(older_form(key.read_bytes()))
    world.compile({**properties, "tls.client.key_file": str(world.folder / "odd.key")}, ROWS)
    fault = world.refusal()
    assert (fault.condition, fault.fault.hint) == ("KAFKA_CERTIFICATE_UNREADABLE", "never"), fault
    assert "PKCS #8" in fault.hint
    world.stop()
    world.compile({**properties, "tls.ca_cert_file": str(world.broker.stranger.file)}, ROWS)
    fault = world.refusal()
    assert (fault.condition, fault.fault.hint) == ("KAFKA_LOGIN_REFUSED", "never"), fault


def older_form(key: bytes) -> bytes:
    """PKCS #1."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    made = serialization.load_pem_private_key(key, None)
    return made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def test_without_the_jar_of_msk(world: World) -> None:
    properties = {
        "uris": world.broker.address("login"),
        "kafka.sasl.hash_function": "aws_msk_iam",
        "kafka.msk.aws_region": "us-east-1",
    }
    world.compile(properties, ROWS)
    fault = world.refusal()
    assert (fault.condition, fault.fault.hint) == ("KAFKA_MSK_JAR_MISSING", "never"), fault
    assert "aws-msk-iam-auth" in fault.hint


# --- topics that change under a reader --------------------------------------------------------------------------------


def test_partitions_added_while_running_are_read(world: World) -> None:
    world.compile(world.broker.user("sha512"), ROWS)
    world.ensure()
    world.send(0, 20)
    world.start()
    world.wait(lambda: len(world.read()) == 20)
    admin = world.broker.admin()
    admin.create_partitions([NewPartitions(f"events_{world.id}", 4)])[f"events_{world.id}"].result(20)
    world.wait(lambda: len(admin.list_topics(f"events_{world.id}", 10).topics[f"events_{world.id}"].partitions) == 4)
    for partition in range(4):
        world.send(100 + 10 * partition, 110 + 10 * partition, partition=partition)
    world.wait(lambda: len(world.read()) == 60)
    assert sorted(row["n"] for row in world.read()) == [*range(20), *range(100, 140)]


def stopped_after_ten(world: World) -> None:
    """A job that has read ten records of each of two partitions and does not run."""
    world.compile(world.broker.user("sha512"), ROWS)
    world.ensure()
    for partition in range(2):
        world.send(0, 10, partition=partition)
    assert world.start("available_now").awaitTermination(120)
    world.stop()


def test_retention_that_overtook_the_reader_is_final(world: World) -> None:
    stopped_after_ten(world)
    for partition in range(2):
        world.send(10, 20, partition=partition)
    admin = world.broker.admin()
    gone = [TopicPartition(f"events_{world.id}", partition, 15) for partition in range(2)]
    for future in admin.delete_records(gone).values():
        future.result(20)
    fault = world.refusal()
    assert (fault.condition, fault.fault.hint) == ("INPUT_LOST", "never"), fault
    assert f"k.events_{world.id}" in fault.message
    assert "ds reset" in fault.hint
    assert len(world.read()) == 20, "nothing of the rest was written"


def test_a_topic_made_anew_is_never_read_on(world: World) -> None:
    """With fewer records than were read, and with more."""
    stopped_after_ten(world)
    for more in (0, 5, 50):
        recreate(world, f"events_{world.id}")
        for partition in range(2):
            world.send(1000, 1000 + more, partition=partition)
        with pytest.raises(DsError) as problem:
            world.start("available_now")
        assert (problem.value.condition, problem.value.fault.hint) == ("INPUT_RECREATED", "never"), more
        assert f"k.events_{world.id}" in problem.value.message
    assert world.start("available_now", version=2).awaitTermination(120), "a reset reads what is there now"
    assert len(world.read()) == 20 + 2 * 50


def test_a_topic_deleted_under_a_running_job(world: World) -> None:
    stopped_after_ten(world)
    world.start()
    world.send(10, 12)
    world.wait(lambda: len(world.read()) == 22)
    admin = world.broker.admin()
    admin.delete_topics([f"events_{world.id}"])[f"events_{world.id}"].result(20)
    fault = world.fault()
    assert fault.condition in ("INPUT_LOST", "INPUT_GONE"), fault


def recreate(world: World, topic: str) -> None:
    admin = world.broker.admin()
    admin.delete_topics([topic])[topic].result(20)
    world.wait(lambda: topic not in admin.list_topics(timeout=10).topics)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    world.wait(lambda: topic in admin.list_topics(timeout=10).topics)


# --- nothing of it is told --------------------------------------------------------------------------------------------


@contextmanager
def everything_logged(spark: SparkSession, file: Path) -> Iterator[None]:
    """The JVM's log as if somebody had asked for much of it; the engine's own level is WARN."""
    log4j = cast("Any", spark._jvm).org.apache.logging.log4j
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    made = log4j.core.appender.FileAppender.newBuilder().setName(file.name).withFileName(str(file)).setLayout(layout)
    appender = made.build()
    appender.start()
    context = log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    root.addAppender(appender, log4j.Level.INFO, None)
    root.setLevel(log4j.Level.INFO)
    context.updateLoggers()
    try:
        yield
    finally:
        root.removeAppender(file.name)
        root.setLevel(log4j.Level.OFF)
        context.updateLoggers()
        appender.stop()


def no_secret_stands_in_what_is_left(world: World, query: StreamingQuery) -> None:
    assert "ProducerConfig values" in (world.folder / "spark.log").read_text()
    prepared, _ = world.running[-1]
    spec = KAFKA.write_spec(world.project.catalog.store("k"), prepared.query.sink, "continuous")  # type: ignore[union-attr]
    shown = prepared.frame._jdf.queryExecution()
    sessions: Any = SparkSession._get_j_spark_session_class(world.spark._jvm)
    sessions.clearActiveSession()  # as in a thread that has made no session
    explained = face.explain(prepared)
    with active(prepared.session):  # Spark masks options by the settings of the thread's session
        plans = [shown.toString(), shown.logical().toString()]
    told = [repr(world.project), repr(prepared), repr(spec), explained, *plans]
    told += [progress.json for progress in query.recentProgress]
    told += [query._jsq.toString(), str(query._jsq.explainInternal(True))]
    told.append(subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout)
    secrets = [
        value
        for name, value in world.environment.items()
        if "SECRET" in name or "PASSWORD" in name or name == "TLS_CLIENT_KEY"
    ]
    assert secrets
    for secret in secrets:
        marked = secret.splitlines()[1] if "\n" in secret else secret.split()[0]
        for text in told:
            at = text.find(marked)
            assert at < 0, text[max(at - 300, 0) : at + 20]
        files = [path for path in world.folder.rglob("*") if path.is_file()]
        assert len(files) > 10, "the checkpoint is among them"
        assert not [path for path in files if marked.encode() in path.read_bytes()]
