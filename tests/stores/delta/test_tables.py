"""What only Delta tables can get wrong: types, shapes, two writers, full refresh, a driver that is killed."""

from __future__ import annotations

import datetime
import decimal
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import LoadResult, SinkIdentity, TableColumn, TableTarget
from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructField,
    StructType,
)
from ds_dagster.datatypes import decimal as decimal_type
from ds_dagster.errors import DsError
from ds_dagster.stores.delta import loader as delta_loader
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.loader import DeltaLoader
from ds_dagster.stores.delta.tables import native_type, new_folder
from tests.driven import Driven
from tests.fixtures.lake import log_blocked, read_lake

UTC = datetime.timezone.utc


@pytest.fixture
def address(tmp_path: Path) -> LakeAddress:
    return LakeAddress("lake", (tmp_path / "the lake").as_uri())


def column(name: str, type_: DataType, nullable: bool = True) -> TableColumn:
    return TableColumn(name, type_, native_type(type_), nullable)


def target(
    *columns: TableColumn, mode: str = "append", refresh: str = "incremental", key: tuple[str, ...] = ("url",)
) -> TableTarget:
    columns = columns or (column("url", VARCHAR), column("n", BIGINT))
    return TableTarget(("t",), columns, key if mode == "upsert" else (), mode, refresh)  # type: ignore[arg-type]


def rows(*pairs: tuple[str | None, int]) -> pyarrow.Table:
    urls, counts = [url for url, _ in pairs], [n for _, n in pairs]
    return pyarrow.table({"url": pyarrow.array(urls, pyarrow.string()), "n": pyarrow.array(counts, pyarrow.int64())})


def loader_of(address: LakeAddress, to: TableTarget, version: int = 1, job: str = "j", **more: Any) -> Driven:
    loader = Driven(DeltaLoader(address, address.place("t"), to, SinkIdentity(job, version), **more))
    loader.prepare()
    return loader


def load(address: LakeAddress, to: TableTarget, version: int, *batches: pyarrow.Table, job: str = "j") -> int:
    loader = loader_of(address, to, version, job)
    for epoch, batch in enumerate(batches):
        loader.load(batch, epoch)
    return loader.finish()


def found(address: LakeAddress) -> list[tuple[Any, Any]]:
    return sorted((row["url"], row["n"]) for row in read_lake(address, address.place("t")))


def refused(step: Any) -> DsError:
    with pytest.raises(DsError) as problem:
        step()
    return problem.value


# --- types ------------------------------------------------------------------------------------------------------------

PLACE = StructType((StructField("city", VARCHAR), StructField("seen", ArrayType(TIMESTAMP_LTZ))))
MOMENT = datetime.datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=UTC).replace(tzinfo=None)
TYPES: dict[str, tuple[DataType, pyarrow.DataType, Any]] = {
    "b": (BOOLEAN, pyarrow.bool_(), True),
    "t": (TINYINT, pyarrow.int8(), -128),
    "s": (SMALLINT, pyarrow.int16(), 300),
    "i": (INTEGER, pyarrow.int32(), 70000),
    "l": (BIGINT, pyarrow.int64(), 2**60),
    "f": (FLOAT, pyarrow.float32(), 1.5),
    "d": (DOUBLE, pyarrow.float64(), 0.1),
    "m": (decimal_type(38, 10), pyarrow.decimal128(38, 10), decimal.Decimal("1234567890123456789012345678.0123456789")),
    "v": (Scalar("VARCHAR", length=10), pyarrow.string(), "ä€'\\"),
    "day": (DATE, pyarrow.date32(), MOMENT.date()),
    "tod": (Scalar("TIME", precision=6), pyarrow.time64("us"), datetime.time(13, 45, 0, 7)),
    "ts": (TIMESTAMP, pyarrow.timestamp("us"), MOMENT),
    "tz": (TIMESTAMP_LTZ, pyarrow.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC)),
    "by": (VARBINARY, pyarrow.binary(), b"\x00\xff"),
    "a": (ArrayType(INTEGER), pyarrow.list_(pyarrow.int32()), [1, None]),
    "st": (
        PLACE,
        pyarrow.struct([("city", pyarrow.string()), ("seen", pyarrow.list_(pyarrow.timestamp("us", "UTC")))]),
        {"city": "Köln", "seen": [MOMENT.replace(tzinfo=UTC)]},
    ),
    "mp": (
        MapType(VARCHAR, decimal_type(12, 2)),
        pyarrow.map_(pyarrow.string(), pyarrow.decimal128(12, 2)),
        [("x", decimal.Decimal("1.25"))],
    ),
    "as": (
        ArrayType(StructType((StructField("x", BIGINT),))),
        pyarrow.list_(pyarrow.struct([("x", pyarrow.int64())])),
        [{"x": 1}],
    ),
    "UPPER.dot": (VARCHAR, pyarrow.string(), "quoted"),
    'odd"name': (VARCHAR, pyarrow.string(), "quoted"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_every_type_arrives(address: LakeAddress, mode: str) -> None:
    """And NULL of every type. By way of a merge the values travel through delta-rs' own engine as well."""
    columns = tuple(column(name, type_) for name, (type_, _, _) in TYPES.items())
    arrow = pyarrow.table({name: pyarrow.array([value, None], type_) for name, (_, type_, value) in TYPES.items()})
    to = target(*columns, mode=mode, key=("l", 'odd"name'))
    load(address, to, 1, arrow)
    if mode == "upsert":
        load(address, to, 2, arrow, arrow)
    expected = {name: value for name, (_, _, value) in TYPES.items()}
    expected |= {"tod": "13:45:00.000007", "mp": {"x": decimal.Decimal("1.25")}}
    read = sorted(read_lake(address, address.place("t")), key=lambda row: row["b"] is None)
    assert read == [expected, dict.fromkeys(TYPES)]


def test_types_are_told_in_the_words_of_sql(address: LakeAddress) -> None:
    load(address, target(column("st", PLACE), column("tod", Scalar("TIME")), column("n", INTEGER)), 1)
    other = target(column("st", VARCHAR), column("n", BIGINT), column("more", BOOLEAN))
    problem = refused(lambda: loader_of(address, other))
    assert problem.condition == "TARGET_DIFFERS"
    assert "st is struct<city:string,seen:array<timestamp>>, not string" in problem.message
    assert "n is int, not bigint" in problem.message
    assert "more boolean is missing; tod string is too many" in problem.message


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_a_required_column_of_an_existing_table_is_told(address: LakeAddress) -> None:
    load(address, target(column("url", VARCHAR, False), column("n", BIGINT)), 1)
    problem = refused(lambda: loader_of(address, target()))
    assert problem.condition == "TARGET_DIFFERS"
    assert "url is NOT NULL, the query's may be NULL" in problem.message


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_the_table_cannot_take_are_refused_and_not_shown(address: LakeAddress, mode: str) -> None:
    to = target(column("url", VARCHAR), column("n", BIGINT, False), mode=mode)
    loader = loader_of(address, to)
    loader.load(rows(("a", 1)), 0)
    wrong = pyarrow.table({"url": ["marked-row"], "n": pyarrow.array([None], pyarrow.int64())})
    problem = refused(lambda: loader.load(wrong, 1))
    assert problem.condition == "TARGET_REJECTS_ROWS"
    assert "marked-row" not in f"{problem} {problem.detail} {problem.params}"
    assert found(address) == [("a", 1)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_constraints_of_others_hold(address: LakeAddress, mode: str) -> None:
    to = target(mode=mode)
    loader = loader_of(address, to)
    table = address.table(address.place("t"))
    table.alter.add_constraint({"small": "n < 10"})
    problem = refused(lambda: loader.load(rows(("marked-row", 11)), 0))
    assert problem.condition == "TARGET_REJECTS_ROWS"
    assert "marked-row" not in f"{problem} {problem.detail} {problem.params}"
    loader.load(rows(("a", 9)), 0)
    assert found(address) == [("a", 9)]


def test_deletes_need_only_their_key(address: LakeAddress) -> None:
    to = target(column("url", VARCHAR), column("n", BIGINT, False), mode="upsert")
    loader = loader_of(address, to)
    loader.load(rows(("a", 1), ("b", 1)), 0)
    gone = pyarrow.table({"url": ["a"], "n": pyarrow.array([None], pyarrow.int64()), "__deleted": [True]})
    loader.load(gone, 1)
    assert found(address) == [("b", 1)]


def test_a_table_that_needs_more_than_the_writer_can(address: LakeAddress) -> None:
    loader = loader_of(address, target())
    log = Path(address.place("t"), "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": ["identityColumns"],
    }
    log.write_text("\n".join(json.dumps({"protocol": features} if "protocol" in a else a) for a in actions))
    problem = refused(lambda: loader.load(rows(("a", 1)), 0))
    assert problem.condition == "TARGET_DIFFERS"
    assert "IdentityColumns" in problem.message


def test_tables_made_with_partitions_stay_so(address: LakeAddress, tmp_path: Path) -> None:
    import deltalake

    place = address.place("t")
    Path(place).mkdir(parents=True)
    deltalake.DeltaTable.create(place, schema=rows().schema, partition_by=["url"])
    load(address, target(mode="upsert"), 1, rows(("a", 1), ("b", 1)), rows(("a", 2)))
    table = address.table(place)
    assert table.metadata().partition_columns == ["url"]
    assert sorted((row["url"], row["n"]) for row in table.to_pyarrow_table().to_pylist()) == [("a", 2), ("b", 1)]


# --- who else writes --------------------------------------------------------------------------------------------------


def test_several_queries_fill_a_declared_table(address: LakeAddress) -> None:
    """Each has its own epochs; none of them can start anew alone."""
    loaders = [loader_of(address, target(), job=job, shared=True) for job in ("one", "two")]
    threads = [
        threading.Thread(target=lambda n=n, loader=loader: [loader.load(rows((f"{n}", e)), e) for e in range(5)])
        for n, loader in enumerate(loaders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found(address) == sorted([(f"{n}", e) for n in range(2) for e in range(5)])
    problem = refused(lambda: loader_of(address, target(), version=2, job="one", shared=True))
    assert problem.condition == "TARGET_SHARED_RESET"


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_two_drivers_of_one_query_load_a_batch_once(
    address: LakeAddress, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked at the ledger before either committed, as two processes can."""
    monkeypatch.setattr(delta_loader, "_lock_of", lambda place: threading.Lock())
    slow, fast = (loader_of(address, target(mode=mode)) for _ in range(2))
    original = slow._write
    calls: list[LoadResult] = []

    def overtaken(*arguments: Any) -> None:
        if not calls:
            calls.append(fast.load(rows(("a", 1), ("b", 1)), 0))
        original(*arguments)

    monkeypatch.setattr(slow, "_write", overtaken)
    assert slow.load(rows(("a", 1), ("b", 1)), 0) == LoadResult(0, replayed=True)
    assert calls == [LoadResult(2)]
    assert found(address) == [("a", 1), ("b", 1)]
    assert slow.finish() == fast.finish() == 2


def test_a_table_somebody_else_never_leaves_alone(address: LakeAddress) -> None:
    loader = loader_of(address, target())
    with log_blocked(Path(address.place("t"))):
        problem = refused(lambda: loader.load(rows(("a", 1)), 0))
    assert (problem.condition, problem.fault.domain) == ("TARGET_BUSY", "external")
    assert found(address) == []
    loader.load(rows(("a", 1)), 0)
    assert found(address) == [("a", 1)]


def test_the_ledger_outlives_the_logs_own_summaries(address: LakeAddress) -> None:
    """Every so many commits delta-rs writes a checkpoint of the log, from which later readers begin."""
    loader = loader_of(address, target())
    address.table(address.place("t")).alter.set_table_properties({"delta.checkpointInterval": "5"})
    for epoch in range(12):
        loader.load(rows((f"u{epoch}", epoch)), epoch)
    assert list(Path(address.place("t"), "_delta_log").glob("*.checkpoint.parquet"))
    again = loader_of(address, target())
    assert again.load(rows(("u11", 11)), 11).replayed
    assert refused(lambda: again.load(rows(("u7", 7)), 7)).condition == "CHECKPOINT_BEHIND_SINK"
    assert again.finish() == 1
    assert len(found(address)) == 12
    newer = loader_of(address, target(), version=2)
    newer.load(rows(("a", 1)), 0)
    assert refused(lambda: again.load(rows(("b", 1)), 12)).condition == "LEDGER_NEWER"
    assert found(address) == [("a", 1)]


# --- full refresh -----------------------------------------------------------------------------------------------------


def test_a_full_refresh_is_published_once(address: LakeAddress) -> None:
    """The process dies after the table was published and before anybody noted it."""
    to = target(mode="upsert", refresh="full")
    first = loader_of(address, to)
    first.load(rows(("a", 1), ("b", 1)), 0)
    first.load(rows(("a", 2)), 1)
    assert first.finish() == 3
    again = loader_of(address, to)
    assert again.load(rows(("a", 2)), 1).replayed
    assert again.finish() == 3
    assert found(address) == [("a", 2), ("b", 1)]
    assert address.folders(address.place("t")) == ["_delta_log"], "what was loaded first is gone"


def test_a_full_refresh_changes_the_shape_of_a_table_of_its_own(address: LakeAddress) -> None:
    load(address, target(refresh="full"), 1, rows(("a", 1)))
    wider = target(column("url", VARCHAR, False), column("n", DOUBLE), refresh="full")
    load(address, wider, 2, pyarrow.table({"url": ["a"], "n": [1.5]}))
    assert read_lake(address, address.place("t")) == [{"url": "a", "n": 1.5}]
    assert address.table(address.place("t")).schema().fields[0].nullable is False
    problem = refused(lambda: load(address, target(refresh="full"), 1, job="other"))
    assert problem.condition == "TARGET_DIFFERS"


def test_a_full_refresh_of_nothing_is_an_empty_table(address: LakeAddress) -> None:
    load(address, target(refresh="full"), 1, rows(("a", 1)))
    load(address, target(refresh="full"), 2)
    assert found(address) == []


def test_a_newer_full_refresh_takes_over(address: LakeAddress) -> None:
    to = target(refresh="full")
    old = loader_of(address, to, 1)
    old.load(rows(("old", 1)), 0)
    new = loader_of(address, to, 2)
    assert refused(lambda: old.load(rows(("old", 2)), 1)).condition == "LEDGER_NEWER"
    new.load(rows(("new", 1)), 0)
    assert new.finish() == 1
    assert refused(lambda: old.load(rows(("old", 2)), 1)).condition == "LEDGER_NEWER"
    assert refused(old.finish).condition == "LEDGER_NEWER"
    assert found(address) == [("new", 1)]


def test_a_full_refresh_whose_rows_were_taken_away(address: LakeAddress) -> None:
    loader = loader_of(address, target(refresh="full"))
    loader.load(rows(("a", 1)), 0)
    address.remove_folder(address.place("t"), new_folder(SinkIdentity("j", 1)))
    assert refused(lambda: loader.load(rows(("b", 1)), 1)).condition == "TARGET_GONE"
    assert refused(loader.finish).condition == "TARGET_GONE"


# --- killed -----------------------------------------------------------------------------------------------------------

DRIVER = """
import sys
import pyarrow
from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.datatypes import BIGINT, VARCHAR
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.stores.delta.loader import DeltaLoader

url, mode, first, batches, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
columns = (TableColumn("url", VARCHAR, "string"), TableColumn("n", BIGINT, "bigint"))
address = LakeAddress("lake", url)
target = TableTarget(("t",), columns, ("url",) if mode == "upsert" else (), mode, "incremental")
loader = DeltaLoader(address, address.place("t"), target, SinkIdentity("j", 1))
loader.prepare(CheckpointTip.at(Tip(first)))
for epoch in range(first, batches):
    numbers = range(epoch * size, (epoch + 1) * size)
    table = pyarrow.table({"url": [f"u{n}" for n in numbers], "n": pyarrow.array(numbers, pyarrow.int64())})
    print("ready", epoch, flush=True)
    result = loader.load(table, Tip(epoch))
    print("loaded" if not result.replayed else "replayed", epoch, flush=True)
"""
BATCHES, SIZE = 6, 30_000


def driver(address: LakeAddress, mode: str, first: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", DRIVER, address.url, mode, str(first), str(BATCHES), str(SIZE)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def until(check: Any, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not check():
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < end, "the deadline passed"
        time.sleep(0.002)


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.servers
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_driver_killed_in_the_middle_of_a_load(address: LakeAddress, mode: str) -> None:
    """kill -9 after a batch's rows were written and before their commit, then as soon as a commit is seen; the next
    driver replays the batch that Spark does not know to be loaded. Every row is there once."""
    place = Path(address.place("t"))
    log = place / "_delta_log"
    wall = log / f"{2:020}.json"  # version 0 makes the table, 1 is batch 0
    wall.mkdir(parents=True)
    process = driver(address, mode, 0)
    until(lambda: len(list(place.glob("*.parquet"))) > 1, process)
    killed(process)
    wall.rmdir()
    assert sorted(row["n"] for row in read_lake(address, str(place))) == list(range(SIZE))
    process = driver(address, mode, 1)
    until(lambda: len(list(log.glob("*.json"))) > 4, process)
    killed(process)
    newest = len(list(log.glob("*.json"))) - 2
    output, _ = (last := driver(address, mode, newest)).communicate()
    assert last.returncode == 0
    assert f"replayed {newest}" in output
    numbers = [row["n"] for row in read_lake(address, str(place))]
    assert len(numbers) == BATCHES * SIZE
    assert set(numbers) == set(range(BATCHES * SIZE))
