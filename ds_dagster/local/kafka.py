"""A real one-node Kafka (KRaft, broker and controller in one process) from Maven jars.

No format step: this module writes the two ids that a new log folder needs, which saves a start of the JVM. Records with
old timestamps are kept (a broker's default retention deletes them within minutes), and so are offsets. Transactions
work with one node. Topics are not created automatically.
"""

from __future__ import annotations

import base64
import os
import shlex
import uuid
from collections.abc import Mapping
from pathlib import Path

from ds_dagster.class_archive import BROKER, java_options
from ds_dagster.errors import error
from ds_dagster.jars import Progress, java_command, resolve
from ds_dagster.local.ports import HOST
from ds_dagster.local.processes import ServerCommand, clean_environment
from ds_dagster.local.server import Home, ServerKind

HEAP = "512m"
OPTIONS = "DS_KAFKA_OPTIONS"
"""Environment variable: further options of the broker's JVM."""
CONTROLLER = "kafka_controller"
TEN_YEARS_MINUTES = 10 * 365 * 24 * 60

SETTINGS: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "num.partitions": 1,
    "auto.create.topics.enable": "false",
    # one node: every internal topic has one copy
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    # development data stays until somebody removes it, whatever its timestamps say
    "log.retention.ms": -1,
    "log.retention.bytes": -1,
    "offsets.retention.minutes": TEN_YEARS_MINUTES,
    # after a kill the controller admits the new broker only when the old broker's session has expired
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    # no empty records in the controller's log, two in a second: a fifth of what a broker that waits takes
    "metadata.max.idle.interval.ms": 0,
    # a small machine
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
}

LOGGING = """\
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={folder}/broker.log
appender.file.filePattern={folder}/broker.log.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c{{1}}: %m%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=3
"""


def prepare(home: Home, progress: Progress) -> ServerCommand:
    """Fetch the jars, write ids and configuration.

    Raises:
        DsError: what :func:`ds_dagster.jars.resolve` raises.
    """
    jars = resolve("kafka-broker", progress)
    home.data.mkdir(parents=True, exist_ok=True)
    meta = home.data / "meta.properties"
    if not meta.is_file():
        _write_properties(meta, {"version": 1, "cluster.id": new_id(), "node.id": 1, "directory.id": new_id()})
    configuration = home.folder / "server.properties"
    _write_properties(configuration, broker_settings(home))
    logging = home.folder / "log4j2.properties"
    logging.write_text(LOGGING.format(folder=home.logs), encoding="utf-8")
    options = [f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={logging}"]
    options += shlex.split(f"{java_options(jars, BROKER)} {os.environ.get(OPTIONS, '')}")
    argv = (java_command(), *options, "-cp", ":".join(map(str, jars)), "kafka.Kafka", str(configuration))
    return ServerCommand(argv=argv, cwd=home.folder, environment=clean_environment())


def broker_settings(home: Home) -> dict[str, object]:
    """All settings of server.properties."""
    port, controller = home.port, home.ports[CONTROLLER]
    return {
        **SETTINGS,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "log.dirs": home.data,
    }


def new_id() -> str:
    """A Kafka id: 22 characters of URL-safe base64 that do not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def cluster_id(home: Home) -> str:
    """The cluster id in the data folder."""
    lines = (home.data / "meta.properties").read_text(encoding="utf-8").splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))


def ailment(home: Home) -> str | None:
    """None if a broker of our own cluster answers a metadata request, else why not."""
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ImportError as problem:
        raise error("LOCAL_PACKAGE_MISSING", package="confluent-kafka", name=home.name) from problem
    client = AdminClient({"bootstrap.servers": f"{HOST}:{home.port}", "log_level": 0})
    try:
        cluster = client.list_topics(timeout=2)
    except KafkaException as problem:
        return str(problem)
    if str(cluster.cluster_id) != cluster_id(home):
        return f"the broker on port {home.port} belongs to another cluster"
    return None if cluster.brokers else "no broker is registered yet"


def _write_properties(path: Path, table: Mapping[str, object]) -> None:
    staged = path.with_name(f".{path.name}.new")
    staged.write_text("".join(f"{key}={value}\n" for key, value in table.items()), encoding="utf-8")
    staged.replace(path)


SERVER = ServerKind(name="kafka", ports=("kafka", CONTROLLER), prepare=prepare, ailment=ailment)
