"""One reader against a real server, batch by batch, without Spark: what tables, servers and crashes can do to it."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import psycopg2
import pytest
from pyspark.sql.types import BinaryType

from ds_dagster.spark.postgres_cdc import server as server_module
from ds_dagster.spark.postgres_cdc import source as source_module
from ds_dagster.spark.postgres_cdc.position import LogPosition
from ds_dagster.spark.postgres_cdc.snapshot import Parts
from ds_dagster.spark.postgres_cdc.source import ChangesReader
from tests.spark.postgres_cdc.reading import BIG, ENVELOPE, KEYED, TABLE, TEXT, condition, struct

pytestmark = pytest.mark.servers


def test_a_snapshot_in_parts_survives_restarts_and_then_goes(database, open_reader):
    database.sql(TABLE)
    database.sql("INSERT INTO s.t SELECT g, 'v' || g FROM generate_series(1, 1000) g")
    reader = open_reader(KEYED, "id", **{"max.records.per.batch": "300"})
    reader.step()
    database.sql("UPDATE s.t SET v = 'later'")
    reader.restart()
    reader.step()
    reader.restart()
    assert reader.sizes == [300, 300]
    reader.drain()
    assert reader.sizes[:4] == [300, 300, 300, 100] and sum(reader.sizes) == 2000
    assert reader.folded("id") == database.rows("s.t")
    assert not Parts.of(reader.options).folder.exists()


def test_writers_never_stop_and_nothing_falls_between_snapshot_and_stream(database, open_reader):
    """Each transaction moves a sum from one row to another: any cut between two transactions keeps the total."""
    import threading

    database.sql(TABLE.replace("v text", "v bigint"))
    database.sql("INSERT INTO s.t SELECT g, 100 FROM generate_series(1, 50) g")
    stop, chance = threading.Event(), random.Random(3)

    def write() -> None:
        connection = database.connect()
        connection.autocommit = False
        while not stop.is_set():
            a, b = chance.sample(range(1, 51), 2)
            with connection, connection.cursor() as cursor:
                cursor.execute("UPDATE s.t SET v = v - 1 WHERE id = %s", (a,))
                cursor.execute("UPDATE s.t SET v = v + 1 WHERE id = %s", (b,))
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reader = open_reader(struct(id=BIG, v=BIG), "id")
        while len(reader.rows) < 500:
            reader.step()
    finally:
        stop.set()
        writer.join()
    reader.drain()
    assert reader.folded("id") == database.rows("s.t")
    commits: dict[int, int] = {}
    for row in reader.rows:
        commits[row["commit_lsn"]] = commits.get(row["commit_lsn"], 0) + 1
    first = min(commits)
    assert commits.pop(first) == 50 and set(commits.values()) == {2}, "a transaction is never divided"


def test_random_changes_fold_to_the_table(database, open_reader):
    """Every kind of replica identity, keys that move, values of every length; read in many batches and restarts."""
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text, n bigint NOT NULL DEFAULT 0)")
    database.sql("CREATE UNIQUE INDEX t_n ON s.t (id)")
    chance = random.Random(20261121)
    reader = open_reader(struct(id=BIG, v=TEXT, n=BIG), "id", **{"max.records.per.batch": "40"})
    identities = ["DEFAULT", "FULL", "USING INDEX t_n", "DEFAULT"]
    for identity in identities:
        database.sql(f"ALTER TABLE s.t REPLICA IDENTITY {identity}")
        for _ in range(60):
            choice, key = chance.random(), chance.randrange(60)
            text = chance.choice(["", "x", "é" * 50, 'q"\\\n', None])
            if choice < 0.5:
                database.sql("INSERT INTO s.t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = %s", key, text, text)
            elif choice < 0.7:
                database.sql("DELETE FROM s.t WHERE id BETWEEN %s AND %s", key, key + 2)
            elif choice < 0.9:
                database.sql("UPDATE s.t SET v = %s, n = n + 1 WHERE id < %s", text, key)
            else:
                database.sql("UPDATE s.t SET id = id + 1000 * (1 + n) WHERE id = %s", key)
            if chance.random() < 0.1:
                reader.step()
            if chance.random() < 0.05:
                reader.restart()
        reader.drain()
        assert reader.folded("id") == database.rows("s.t"), identity


def test_unchanged_values_that_are_stored_apart(database, open_reader):
    """TOAST: with the full old row the value is known, without it the change says so."""
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text, n int)")
    database.sql("ALTER TABLE s.t ALTER v SET STORAGE EXTERNAL")
    reader = open_reader(KEYED, "id")
    reader.drain()
    database.sql("INSERT INTO s.t VALUES (1, repeat('long', 3000), 1)")
    database.sql("ALTER TABLE s.t REPLICA IDENTITY FULL")
    database.sql("UPDATE s.t SET n = 2")
    assert [len(row["row"]["v"]) for row in reader.drain()] == [12000, 12000]
    database.sql("ALTER TABLE s.t REPLICA IDENTITY DEFAULT")
    database.sql("UPDATE s.t SET n = 3")
    (row,) = reader.drain()
    assert row["bad"].startswith("column v: it was not changed and is stored apart (TOAST)")
    other = open_reader(struct(id=BIG), "id", slot="other")
    other.drain()
    database.sql("UPDATE s.t SET n = 4")
    assert [row["bad"] for row in other.drain()] == [None], "the value is not read"


def test_a_column_is_added_and_one_is_dropped(database, open_reader):
    database.sql(TABLE)
    reader = open_reader(KEYED, "id")
    reader.drain()
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    database.sql("ALTER TABLE s.t ADD COLUMN more int DEFAULT 7")
    database.sql("INSERT INTO s.t VALUES (2, 'b', 8)")
    assert [row["row"] for row in reader.drain()] == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    database.sql("ALTER TABLE s.t DROP COLUMN v")
    database.sql("INSERT INTO s.t VALUES (3, 9)")
    assert condition(reader.step) == "CDC_COLUMN_GONE"
    reader.options = replace(
        reader.options, shape=replace(reader.options.shape, columns=reader.options.shape.columns[:1])
    )
    reader.restart()
    assert [row["row"] for row in reader.drain()] == [{"id": 3}], "with corrected columns it resumes where it stopped"


def test_truncate(database, open_reader):
    database.sql(TABLE)
    keyed, stream = open_reader(KEYED, "id"), open_reader(ENVELOPE, slot="stream")
    keyed.drain(), stream.drain()
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    database.sql("TRUNCATE s.t")
    found = [(row["row"]["op"], row["row"]["before"], row["row"]["after"]) for row in stream.drain()]
    assert found == [("c", None, {"id": 1, "v": "a"}), ("t", None, None)]
    assert condition(keyed.step) == "CDC_TRUNCATED"


def test_a_partitioned_table_is_one_table(database, open_reader):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    database.sql("CREATE TABLE s.p1 PARTITION OF s.t FOR VALUES FROM (0) TO (100)")
    database.sql("CREATE TABLE s.p2 PARTITION OF s.t FOR VALUES FROM (100) TO (200)")
    database.sql("INSERT INTO s.t VALUES (1, 'a'), (101, 'b')")
    reader = open_reader(KEYED, "id")
    reader.drain()
    database.sql("UPDATE s.t SET id = 102 WHERE id = 1")
    database.sql("CREATE TABLE s.p3 PARTITION OF s.t FOR VALUES FROM (200) TO (300)")
    database.sql("INSERT INTO s.t VALUES (201, 'c')")
    reader.drain()
    assert reader.folded("id") == database.rows("s.t")


def test_several_tables_as_json(database, open_reader):
    database.sql("CREATE TABLE s.a (id int PRIMARY KEY, j jsonb, b bytea, n numeric, at timestamptz, c char(3))")
    database.sql('CREATE TABLE s."B.c" (k text PRIMARY KEY, xs int[], ok bool, f float8)')
    database.sql("INSERT INTO s.a VALUES (1, '{\"x\": [1, 2]}', '\\x00ff', 1.50, '2024-01-31 10:11:12.5+02', 'z')")
    reader = open_reader(
        struct(op=TEXT, after=BinaryType(), source=struct(table=TEXT, schema=TEXT)), tables="s.a\ns.B.c"
    )
    reader.drain()
    database.sql('INSERT INTO s."B.c" VALUES (%s, %s, true, %s)', 'q"\\\n\t', [1, None, 3], float("nan"))
    reader.drain()
    found = [(row["row"]["source"]["table"], json.loads(row["row"]["after"])) for row in reader.rows]
    assert found == [
        ("a", {"id": 1, "j": {"x": [1, 2]}, "b": "AP8=", "n": 1.50, "at": "2024-01-31 08:11:12.5Z", "c": "z"}),
        ("B.c", {"k": 'q"\\\n\t', "xs": [1, None, 3], "ok": True, "f": "NaN"}),
    ]


def test_a_large_transaction_is_read_in_chunks(database, open_reader):
    database.sql("CREATE TABLE s.t (id bigint PRIMARY KEY, v text)")
    reader = open_reader(KEYED, "id", **{"max.records.per.batch": "1000"})
    reader.drain()
    database.sql("INSERT INTO s.t SELECT g, repeat('x', 200) FROM generate_series(1, 150000) g")
    reader.reader._next_look = 0.0
    end = reader.plan()
    task = ChangesReader(reader.options)
    (part,) = reader.reader.partitions(reader.position, end) or [None]
    sizes = [batch.num_rows for batch in task.read(part)] if part else []
    while not sizes:  # the records of the transaction, then the one of its commit
        reader.position = end
        end = reader.plan()
        (part,) = reader.reader.partitions(reader.position, end)
        sizes = [batch.num_rows for batch in task.read(part)]
    assert sum(sizes) == 150_000 and max(sizes) <= 20_000


def test_the_slot_is_never_ahead_of_the_checkpoint(database, open_reader):
    database.sql(TABLE)
    reader = open_reader(KEYED, "id")

    def confirmed() -> int:
        (row,) = database.sql("SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots")
        return int(row[0])

    reader.drain()
    for number in range(5):
        before = LogPosition.parse(reader.position).lsn
        database.sql("INSERT INTO s.t VALUES (%s, 'x')", number)
        reader.reader._next_look = 0.0
        end = reader.plan()
        assert end is not None and confirmed() <= (before or 0)
        assert len(reader.read(end)) == 1
        assert len(reader.read(end)) == 1, "an open batch is read again as it was"
        reader.restart()
        assert len(reader.read(end)) == 1
        reader.position = end


def test_log_of_others_moves_the_slot(database, open_reader, monkeypatch):
    database.sql(TABLE)
    database.sql("CREATE TABLE s.other (x text)")
    reader = open_reader(KEYED, "id")
    reader.drain()
    before = reader.position
    database.sql("INSERT INTO s.other SELECT repeat('x', 100) FROM generate_series(1, 1000)")
    assert not reader.step() and reader.position == before
    monkeypatch.setattr(source_module, "HEARTBEAT_BYTES", 10_000)
    assert reader.step() and reader.sizes[-1] == 0
    report = reader.reader.reportLatestOffset()
    assert report is not None and report["0"]["lag_bytes"] == 0 and report["0"]["wal_status"] == "reserved"
    reader.step()
    (row,) = database.sql(
        "SELECT confirmed_flush_lsn > %s::pg_lsn FROM pg_replication_slots", before["changes"]["0"]["lsn"]
    )
    assert row == (True,)


@pytest.mark.parametrize("restarted", [False, True])
def test_the_copy_of_a_table_claims_no_time(database, open_reader, restarted):
    """Changes that are made while it is read come behind it; without a report the clock goes by this machine's time."""
    database.sql(TABLE)
    database.sql("INSERT INTO s.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    reader = open_reader(KEYED, "id", **{"max.records.per.batch": "1"})
    reader.step()
    if restarted:
        reader.restart()
        reader.step()
    database.sql("INSERT INTO s.t VALUES (4, 'd')")
    (copied,) = reader.reader.reportLatestOffset().values()
    assert "complete_until" not in copied and copied["millis_behind"] == 1 and copied["lag_bytes"] < 10_000
    reader.drain()
    (read,) = reader.reader.reportLatestOffset().values()
    assert read["complete_until"] > 0 and len(reader.rows) == 4


def test_a_finite_run_ends_with_what_was_there(database, open_reader):
    database.sql(TABLE)
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    reader = open_reader(KEYED, "id")
    reader.reader.prepareForTriggerAvailableNow()
    reader.drain()
    database.sql("INSERT INTO s.t VALUES (2, 'b')")
    reader.restart()
    reader.reader.prepareForTriggerAvailableNow()
    database.sql("INSERT INTO s.t VALUES (3, 'c')")
    assert [row["row"]["id"] for row in reader.drain()] == [2]
    reader.restart()
    assert [row["row"]["id"] for row in reader.drain()] == [3]


def test_latest_reads_what_comes_and_an_existing_slot_is_taken_over(database, open_reader):
    database.sql(TABLE)
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    database.sql("CREATE PUBLICATION mine FOR TABLE s.t")
    database.sql("SELECT pg_create_logical_replication_slot('mine', 'pgoutput')")
    database.sql("INSERT INTO s.t VALUES (2, 'b')")
    later = open_reader(ENVELOPE, slot="mine", **{"starting.position": "latest"})
    assert [row["row"]["op"] for row in later.drain()] == ["c"]
    database.sql("SELECT pg_create_logical_replication_slot('other', 'pgoutput')")
    all_ = open_reader(ENVELOPE, slot="other")
    assert [row["row"]["op"] for row in all_.drain()] == ["r", "r"]
    database.sql("INSERT INTO s.t VALUES (3, 'c')")
    assert [row["row"]["op"] for row in all_.drain()] == ["c"]


def test_a_server_that_is_killed_loses_and_doubles_nothing(database, open_reader):
    database.sql(TABLE)
    reader = open_reader(KEYED, "id")
    for round_ in range(3):
        database.sql("INSERT INTO s.t SELECT g, 'x' FROM generate_series(%s, %s) g", 100 * round_, 100 * round_ + 99)
        reader.drain()
        database.sql("UPDATE s.t SET v = v || 'y' WHERE mod(id, 3) = 0")
        database.kill()
        assert condition(reader.step) == "STORE_UNREACHABLE"
        reader.restart()
    reader.drain()
    assert reader.folded("id") == database.rows("s.t")
    changes = [(row["commit_lsn"], row["sequence"]) for row in reader.rows]
    assert len(set(changes)) == len(changes)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ddl", "key", "expected"),
    [
        ("CREATE TABLE s.other (id bigint)", "", "CDC_TABLE_MISSING"),
        ("CREATE VIEW s.t AS SELECT 1::bigint AS id, '' AS v", "", "CDC_TABLE_UNREADABLE"),
        ("CREATE UNLOGGED TABLE s.t (id bigint PRIMARY KEY, v text)", "", "CDC_TABLE_UNREADABLE"),
        ("CREATE TABLE s.t (id bigint, v text)", "", "CDC_TABLE_WITHOUT_KEY"),
        (TABLE + "; ALTER TABLE s.t REPLICA IDENTITY NOTHING", "", "CDC_TABLE_WITHOUT_KEY"),
        ("CREATE TABLE s.t (id bigint PRIMARY KEY)", "", "CDC_COLUMN_GONE"),
        ("CREATE TABLE s.t (id bigint, v text PRIMARY KEY)", "id", "CDC_KEY_DIFFERS"),
        ("CREATE TABLE s.t (id bigint, v text); ALTER TABLE s.t REPLICA IDENTITY FULL", "id", "CDC_KEY_DIFFERS"),
    ],
)
def test_tables_that_cannot_be_read(database, open_reader, ddl, key, expected):
    database.sql(ddl)
    reader = open_reader(KEYED if key else ENVELOPE, key)
    assert condition(reader.step) == expected
    assert not database.sql("SELECT 1 FROM pg_publication"), "nothing was made"
    assert not database.sql("SELECT 1 FROM pg_replication_slots")


def test_a_slot_that_is_gone_or_was_moved(database, open_reader):
    database.sql(TABLE)
    reader = open_reader(KEYED, "id")
    reader.drain()
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    database.sql("SELECT pg_replication_slot_advance('reader', pg_current_wal_lsn())")
    assert condition(reader.step) == "CDC_SLOT_AHEAD"
    database.sql("SELECT pg_drop_replication_slot('reader')")
    assert condition(reader.step) == "CDC_SLOT_MISSING"


def test_a_slot_of_others(database, open_reader, monkeypatch):
    database.sql(TABLE)
    database.sql("CREATE DATABASE elsewhere")
    other = database.connect("elsewhere")
    other.cursor().execute("SELECT pg_create_logical_replication_slot('reader', 'pgoutput')")
    assert condition(open_reader(KEYED, "id").step) == "CDC_SLOT_FOREIGN"
    other.cursor().execute("SELECT pg_drop_replication_slot('reader')")
    other.close()
    database.sql("DROP DATABASE elsewhere")
    reader = open_reader(KEYED, "id", slot="busy")
    reader.drain()
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    monkeypatch.setattr(server_module, "SLOT_SECONDS", 0.5)
    from psycopg2.extras import LogicalReplicationConnection

    holder = psycopg2.connect(
        database.url, user="postgres", password=database.password, connection_factory=LogicalReplicationConnection
    )
    holder.cursor().start_replication(
        slot_name="busy", options={"proto_version": "1", "publication_names": "busy"}, decode=False
    )
    assert condition(reader.step) == "CDC_SLOT_ACTIVE"
    holder.close()
    monkeypatch.setattr(server_module, "SLOT_SECONDS", 30.0)
    assert [row["row"]["id"] for row in reader.drain()] == [1]


def test_a_publication_that_was_dropped(database, open_reader):
    database.sql(TABLE)
    reader = open_reader(KEYED, "id")
    reader.drain()
    database.sql("DROP PUBLICATION reader")
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    assert condition(reader.step) == "CDC_PUBLICATION_MISSING"


def test_a_user_without_rights(database, open_reader):
    database.sql(TABLE)
    database.sql("DROP ROLE IF EXISTS cdc_reader")
    database.sql("CREATE ROLE cdc_reader LOGIN PASSWORD 'cdc_reader_pw'")
    login = {"username": "cdc_reader", "password": "cdc_reader_pw"}
    assert condition(open_reader(KEYED, "id", **login).step) == "CDC_NOT_ALLOWED"
    database.sql("ALTER ROLE cdc_reader REPLICATION")
    assert condition(open_reader(KEYED, "id", **login).step) == "STORE_PERMISSION_DENIED"
    database.sql("GRANT USAGE ON SCHEMA s TO cdc_reader")
    database.sql("GRANT SELECT ON s.t TO cdc_reader")
    database.sql("CREATE PUBLICATION reader FOR TABLE s.t")
    reader = open_reader(KEYED, "id", **login)
    database.sql("INSERT INTO s.t VALUES (1, 'a')")
    assert len(reader.drain()) == 1, "what an administrator made is enough"
    reader.reader.stop()
    database.sql("DROP OWNED BY cdc_reader")


def test_a_snapshot_that_was_removed_or_cannot_be_written(database, open_reader, tmp_path):
    database.sql(TABLE)
    database.sql("INSERT INTO s.t SELECT g, 'x' FROM generate_series(1, 10) g")
    reader = open_reader(KEYED, "id", **{"max.records.per.batch": "5"})
    reader.step()
    Parts.of(reader.options).clear()
    assert condition(reader.step) == "CDC_SNAPSHOT_LOST"
    (tmp_path / "file").write_text("")
    blocked = open_reader(KEYED, "id", slot="blocked", state=str(tmp_path / "file"))
    assert condition(blocked.step) == "CDC_SNAPSHOT_FAILED"


def test_no_slot_is_left(database, open_reader):
    database.sql(TABLE)
    database.sql("SELECT pg_create_physical_replication_slot('p' || g) FROM generate_series(1, 20) g")
    assert condition(open_reader(KEYED, "id").step) == "CDC_NO_SLOT_FREE"


def test_an_old_server(database, open_reader, monkeypatch):
    database.sql(TABLE)
    monkeypatch.setattr(server_module, "LEAST_VERSION", 990_000)
    assert condition(open_reader(KEYED, "id").step) == "CDC_SERVER_TOO_OLD"


def test_a_slot_whose_log_was_removed_and_a_server_that_logs_too_little(other_server, open_reader):
    database = other_server(max_slot_wal_keep_size="1MB", max_wal_size="32MB")
    database.sql("CREATE SCHEMA s")
    database.sql(TABLE)
    reader = open_reader(KEYED, "id", url=database.url, password=database.password)
    reader.drain()
    for _ in range(4):
        database.sql("INSERT INTO s.t SELECT coalesce(max(id), 0) + 1 FROM s.t")
        database.sql("SELECT pg_switch_wal()")
    database.sql("CHECKPOINT")
    assert condition(reader.step) == "CDC_SLOT_LOST"
    reader.reader.stop()
    database.sql("SELECT pg_drop_replication_slot('reader')")
    database = other_server(wal_level="replica")
    assert condition(open_reader(KEYED, "id", url=database.url, password=database.password).step) == "CDC_WAL_LEVEL"
