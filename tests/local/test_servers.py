"""The real local servers: start, find again, stop, survive kills, live side by side, refuse what is not theirs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
import psycopg2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from ds_dagster import local
from ds_dagster.class_archive import BROKER, location
from ds_dagster.errors import DsError, ExternalError, UserError
from ds_dagster.jars import resolve
from ds_dagster.local import kafka, kinesis, postgres, servers
from ds_dagster.local.ports import assign_ports, remembered_ports
from ds_dagster.local.processes import start_token
from ds_dagster.local.server import Home, log_tail, rotate
from ds_dagster.settings import load_settings

pytestmark = pytest.mark.servers
YEAR_MS = 365 * 86_400_000
Wait = Callable[[Callable[[], bool]], None]


def pids(state: Path) -> dict[str, int | None]:
    return {server.name: server.pid for server in local.status(state)}


def states(state: Path) -> dict[str, str]:
    return {server.name: server.state for server in local.status(state)}


def make_topic(address: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})  # a client that is let go ends its requests
    for future in admin.create_topics([NewTopic(name, 1, 1)]).values():
        future.result(30)


def read_topic(address: str, name: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": str(uuid.uuid4()), "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(name, 0, 0)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(100, 0.2) if message.error() is None]
    consumer.close()
    return found


def write_topic(address: str, name: str, value: bytes, **extra: Any) -> None:
    producer = Producer({"bootstrap.servers": address})
    producer.produce(name, value, **extra)
    assert producer.flush(30) == 0


def kinesis_client(found: local.LocalAddresses) -> Any:
    return boto3.client(
        "kinesis",
        endpoint_url=found.kinesis,
        region_name=found.region,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


def make_stream(client: Any, name: str, wait_until: Wait) -> None:
    client.create_stream(StreamName=name, ShardCount=2)
    summary = "StreamDescriptionSummary"
    wait_until(lambda: client.describe_stream_summary(StreamName=name)[summary]["StreamStatus"] == "ACTIVE")


def read_stream(client: Any, name: str) -> list[bytes]:
    found: list[bytes] = []
    for shard in client.list_shards(StreamName=name)["Shards"]:
        where = {"StreamName": name, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = client.get_shard_iterator(**where)["ShardIterator"]
        found += [record["Data"] for record in client.get_records(ShardIterator=iterator)["Records"]]
    return found


def connect(state: Path, password: str | None = None) -> Any:
    port = remembered_ports(state)["postgres"]
    secret = local.postgres_password(state) if password is None else password
    return psycopg2.connect(host="127.0.0.1", port=port, user="postgres", password=secret, dbname="postgres")


def ask(state: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = connect(state)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


# --- what they are (shared, running servers) --------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the files that a process maps")
def test_the_broker_maps_its_class_archive(servers: Path) -> None:
    archive = location(resolve("kafka-broker"), BROKER)
    if not archive.is_file():
        pytest.skip("no class archive was recorded (ds doctor --prepare)")
    assert str(archive) in Path(f"/proc/{pids(servers)['kafka']}/maps").read_text()


def test_the_addresses_have_the_documented_shape(servers: Path) -> None:
    found = local.up(servers)
    port = remembered_ports(servers)
    assert found.json() == {
        "kafka": {"bootstrap.servers": f"127.0.0.1:{port['kafka']}"},
        "kinesis": {"endpoint_url": f"http://127.0.0.1:{port['kinesis']}", "region": "us-east-2"},
        "postgres": {
            "url": f"postgresql://postgres@127.0.0.1:{port['postgres']}/postgres",
            "password_file": str(servers.resolve() / "secrets" / "postgres"),
        },
    }
    assert local.postgres_password(servers) not in json.dumps(found.json()) + repr(found)


def test_a_second_start_changes_nothing(servers: Path) -> None:
    before = pids(servers)
    lines: list[str] = []
    start = time.monotonic()
    found = local.up(servers, progress=lines.append)
    assert time.monotonic() - start < 5
    assert found == local.addresses(servers)
    assert pids(servers) == before
    assert lines == []


def test_two_starts_at_once_start_once(servers: Path) -> None:
    before = pids(servers)
    code = f"from ds_dagster import local; from pathlib import Path; local.up(Path({str(servers)!r}))"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait(60) for process in started] == [0, 0]
    assert pids(servers) == before


def test_the_overlay_is_what_a_project_reads(servers: Path) -> None:
    overlay = load_settings(servers.parent).overlay
    assert overlay.path == str(servers / "local.toml")
    port = remembered_ports(servers)
    assert overlay.kinds["kafka"]["uris"] == f"127.0.0.1:{port['kafka']}"
    assert overlay.kinds["kafka"]["tls.disabled"] is True
    assert overlay.kinds["kinesis"]["uris"] == f"http://127.0.0.1:{port['kinesis']}"
    assert overlay.kinds["kinesis"]["kinesis.access_key_id"]
    assert overlay.kinds["postgresql"]["uris"] == f"postgresql://127.0.0.1:{port['postgres']}/postgres"
    secret = overlay.kinds["postgresql"]["postgres.password"]
    assert (servers / secret["file"]).read_text().strip() == local.postgres_password(servers)


def test_the_password_stands_in_one_private_file(servers: Path) -> None:
    file = servers / "secrets" / "postgres"
    secret = file.read_text().strip().encode()
    assert len(secret) >= 24
    assert file.stat().st_mode & 0o777 == 0o600
    holders = [path for path in servers.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert holders == [file]
    arguments = [Path(f"/proc/{pid}/cmdline") for pid in pids(servers).values()]
    assert all(secret not in path.read_bytes() for path in arguments if path.exists())


def test_kafka_commits_and_aborts_transactions(servers: Path) -> None:
    address = local.addresses(servers).kafka
    make_topic(address, "transactions")
    producer = Producer({"bootstrap.servers": address, "transactional.id": "test"})
    producer.init_transactions(30)
    for value, commit in ((b"one", True), (b"lost", False), (b"two", True)):
        producer.begin_transaction()
        producer.produce("transactions", value)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    assert read_topic(address, "transactions", 2) == [b"one", b"two"]


def test_kafka_keeps_old_records_and_makes_no_topic_by_itself(servers: Path) -> None:
    address = local.addresses(servers).kafka
    make_topic(address, "old")
    admin = AdminClient({"bootstrap.servers": address})
    settings = next(iter(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "old")]).values())).result(
        30
    )
    assert settings["retention.ms"].value == "-1"
    assert settings["retention.bytes"].value == "-1"
    write_topic(address, "old", b"a year ago", timestamp=int(time.time() * 1000) - YEAR_MS)
    assert read_topic(address, "old", 1) == [b"a year ago"]
    admin.list_topics("never_made", timeout=10)
    assert "never_made" not in admin.list_topics(timeout=10).topics


def test_kinesis_puts_gets_and_reshards(servers: Path, wait_until: Wait) -> None:
    client = kinesis_client(local.addresses(servers))
    make_stream(client, "users", wait_until)
    records = [{"Data": b"%d" % i, "PartitionKey": str(i)} for i in range(50)]
    assert client.put_records(StreamName="users", Records=records)["FailedRecordCount"] == 0
    assert sorted(map(int, read_stream(client, "users"))) == list(range(50))
    client.split_shard(StreamName="users", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**125))
    wait_until(lambda: len(client.list_shards(StreamName="users")["Shards"]) == 4)


def test_postgres_wants_the_password_and_decodes_logically(servers: Path) -> None:
    assert ask(servers, "SHOW wal_level") == [("logical",)]
    assert ask(servers, "SHOW server_encoding") == [("UTF8",)]
    for wrong in ("", "wrong"):
        with pytest.raises(psycopg2.OperationalError, match="password"):
            connect(servers, wrong)


def test_postgres_is_not_root(servers: Path) -> None:
    pid = pids(servers)["postgres"]
    if not Path("/proc").is_dir():
        pytest.skip("no /proc here")
    assert Path(f"/proc/{pid}").stat().st_uid != 0


# --- starting and stopping --------------------------------------------------------------------------------------------


def test_servers_that_are_killed_and_stopped_keep_the_data(servers: Path, wait_until: Wait) -> None:
    """Whatever ended them, they come back at their addresses with what was written right before."""
    found = local.up(servers)
    write_everywhere(servers, found, "one", wait_until)
    before = pids(servers)
    for pid in before.values():
        assert pid
        os.kill(pid, signal.SIGKILL)
    assert local.up(servers) == found
    running = pids(servers)
    assert set(states(servers).values()) == {"running"}
    assert not set(running.values()) & set(before.values())
    write_everywhere(servers, found, "two", wait_until)
    assert set(local.down(servers)) == {"kafka", "kinesis", "postgres"}
    assert all(start_token(pid) is None for pid in running.values() if pid)
    assert set(states(servers).values()) == {"stopped"}
    assert local.down(servers) == ()
    assert local.addresses(servers) == found, "the overlay and its addresses outlive the servers"
    assert local.up(servers) == found
    check_everywhere(servers, found, "one")
    check_everywhere(servers, found, "two")


def write_everywhere(state: Path, found: local.LocalAddresses, name: str, wait_until: Wait) -> None:
    make_topic(found.kafka, name)
    write_topic(found.kafka, name, b"kafka")
    client = kinesis_client(found)
    make_stream(client, name, wait_until)
    client.put_record(StreamName=name, Data=b"kinesis", PartitionKey="k")
    ask(state, f"CREATE TABLE {name} AS SELECT 'postgres' AS v")


def check_everywhere(state: Path, found: local.LocalAddresses, name: str) -> None:
    assert read_topic(found.kafka, name, 1) == [b"kafka"]
    assert read_stream(kinesis_client(found), name) == [b"kinesis"]
    assert ask(state, f"SELECT v FROM {name}") == [("postgres",)]


def test_two_projects_live_side_by_side(tmp_path: Path) -> None:
    folders = [tmp_path / name / ".ds" for name in ("one", "two")]
    try:
        found = [local.up(folder, only=["kinesis", "postgres"]) for folder in folders]
        assert len({address for one in found for address in (one.kinesis, one.postgres)}) == 4
        assert found[0].kafka == ""
        local.down(folders[0])
        assert states(folders[1]) == {"kafka": "stopped", "kinesis": "running", "postgres": "running"}
    finally:
        for folder in folders:
            local.down(folder)


def test_a_foreign_process_on_the_port_is_named(state: Path) -> None:
    state.mkdir()
    port = assign_ports(state.resolve(), ("kinesis",))["kinesis"]
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", port))
        foreign.listen()
        with pytest.raises(UserError) as caught:
            local.up(state, only=["kinesis"])
    assert caught.value.condition == "LOCAL_PORT_TAKEN"
    assert str(port) in str(caught.value)
    assert local.up(state, only=["kinesis"]).kinesis.endswith(str(port))


def test_a_recycled_pid_is_neither_trusted_nor_killed(state: Path) -> None:
    local.up(state, only=["postgres"])
    local.down(state)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        record = {"version": 1, "name": "postgres", "pid": other.pid, "token": "an earlier process", "ports": {}}
        (state / "local" / "postgres" / "server.json").write_text(json.dumps(record))
        postmaster = state / "local" / "postgres" / "data" / "postmaster.pid"
        postmaster.write_text(f"{other.pid}\n/proc/self/cwd\n0\n{remembered_ports(state)['postgres']}\n\n127.0.0.1\n")
        assert states(state)["postgres"] == "stopped"
        assert local.down(state) == ()
        (state / "local" / "postgres" / "server.json").write_text(json.dumps(record))
        local.up(state, only=["postgres"])
        assert states(state)["postgres"] == "running"
        assert other.poll() is None
    finally:
        other.communicate(b"\n", timeout=30)


def test_a_pid_file_cut_off_by_a_kill_is_no_obstacle(state: Path) -> None:
    local.up(state, only=["kinesis"])
    local.down(state)
    (state / "local" / "kinesis" / "server.json").write_text('{"version": 1, "pi')
    local.up(state, only=["kinesis"])
    assert states(state)["kinesis"] == "running"


def test_a_server_that_does_not_answer_is_started_again(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local.up(state, only=["kinesis"])
    hung = pids(state)["kinesis"]
    assert hung
    os.kill(hung, signal.SIGSTOP)
    assert states(state)["kinesis"] == "ailing"
    impatient = servers.KINDS["kinesis"].__class__(
        **{
            **{f: getattr(servers.KINDS["kinesis"], f) for f in servers.KINDS["kinesis"].__slots__},
            "start_seconds": 5.0,
            "stop": servers.KINDS["kinesis"].stop[1:],
        }
    )
    monkeypatch.setattr(servers, "KINDS", {**servers.KINDS, "kinesis": impatient})
    local.up(state, only=["kinesis"])
    assert states(state)["kinesis"] == "running"
    assert pids(state)["kinesis"] != hung


def test_a_server_that_cannot_start_shows_its_log(state: Path) -> None:
    """The folder of the broker is of another node."""
    state.mkdir()
    home = Home(state.resolve(), "kafka", assign_ports(state.resolve(), ("kafka", kafka.CONTROLLER)))
    kafka.prepare(home, lambda line: None)
    meta = home.data / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(ExternalError) as caught:
        local.up(state, only=["kafka"])
    assert caught.value.condition == "LOCAL_SERVER_FAILED"
    assert "node.id" in caught.value.detail or "node id" in caught.value.detail.lower()
    assert states(state)["kafka"] == "stopped"


def test_an_unknown_server_is_refused(state: Path) -> None:
    with pytest.raises(UserError) as caught:
        local.up(state, only=["redis"])
    assert caught.value.condition == "LOCAL_SERVER_UNKNOWN"
    assert not state.exists()


def test_lost_password_is_named(state: Path) -> None:
    local.up(state, only=["postgres"])
    local.down(state)
    (state / "secrets" / "postgres").unlink()
    with pytest.raises(DsError) as caught:
        local.up(state, only=["postgres"])
    assert caught.value.condition == "POSTGRES_PASSWORD_LOST"


def test_data_of_another_postgres_is_refused(state: Path) -> None:
    local.up(state, only=["postgres"])
    local.down(state)
    (state / "local" / "postgres" / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(DsError) as caught:
        local.up(state, only=["postgres"])
    assert caught.value.condition == "POSTGRES_DATA_OTHER_VERSION"


def test_starting_from_a_thread_leaves_the_server_running(state: Path) -> None:
    thread = threading.Thread(target=local.up, args=(state,), kwargs={"only": ["postgres"]})
    thread.start()
    thread.join(60)
    assert states(state)["postgres"] == "running"


def test_the_wheel_brings_a_node_that_runs_kinesis(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Wait
) -> None:
    monkeypatch.setenv("DS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kinesis.shutil, "which", lambda name: None)  # type: ignore[attr-defined]
    lines: list[str] = []
    client = kinesis_client(local.up(state, only=["kinesis"], progress=lines.append))
    assert any("installing" in line for line in lines)
    make_stream(client, "s", wait_until)
    client.put_record(StreamName="s", Data=b"x", PartitionKey="k")
    assert read_stream(client, "s") == [b"x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands Postgres to another account")
def test_postgres_runs_from_a_closed_environment(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as world:
        Path(world).chmod(0o755)
        monkeypatch.setattr(postgres, "WORLD_FOLDER", Path(world))
        monkeypatch.setattr(postgres, "_open_to_others", lambda folder: False)
        state.parent.chmod(0o700)
        local.up(state, only=["postgres"])
        assert ask(state, "SELECT 1") == [(1,)]
        command = Path(f"/proc/{pids(state)['postgres']}/cmdline").read_text()
        assert command.startswith(world)
        assert [path.name[:20] for path in Path(world).iterdir()] == ["ds_dagster-postgres-"]
        local.down(state)


# --- small parts ------------------------------------------------------------------------------------------------------


def test_large_logs_are_moved_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ds_dagster.local.server.LOG_BYTES", 10)
    log = tmp_path / "server.log"
    for number in range(6):
        log.write_text(f"start {number} " + "x" * 20)
        rotate(log)
    assert not log.exists()
    kept = {path.name: path.read_text().split()[1] for path in tmp_path.iterdir()}
    assert kept == {"server.log.1": "5", "server.log.2": "4", "server.log.3": "3"}


def test_kafka_settings_name_only_this_machine(tmp_path: Path) -> None:
    home = Home(tmp_path, "kafka", {"kafka": 20001, "kafka_controller": 20002})
    settings: Mapping[str, object] = kafka.broker_settings(home)
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20001"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:20002"
    assert log_tail(home) == ""


def test_the_broker_gets_further_options_of_its_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS_KAFKA_OPTIONS", "-Xmx1g '-Dwhere=a b'")
    home = Home(tmp_path, "kafka", {"kafka": 20001, "kafka_controller": 20002})
    argv = kafka.prepare(home, lambda line: None).argv
    given = [argv.index(option) for option in ("-Xmx1g", "-Dwhere=a b")]
    assert max(given) < argv.index("kafka.Kafka"), "in front of the class: Java's own options"
    assert argv.index(f"-Xmx{kafka.HEAP}") < min(given), "the last one counts"
