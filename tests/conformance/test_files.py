"""Files as source and sink of real queries, in a folder and in a bucket: every row once, whatever ends the driver."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.errors import DsError, error
from ds_dagster.files.address import FilesAddress, FileStore
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.queries import query as face
from ds_dagster.spark.queries.prepared import PreparedQuery, prepare
from ds_dagster.spark.queries.query import Trigger
from ds_dagster.stores.memory import loader as memory_loader
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.s3.loader import FilesLoader
from tests.conformance.conftest import patient
from tests.driven import Driven
from tests.fixtures.lake import s3_bucket

pytestmark = [pytest.mark.conformance, pytest.mark.spark]
DEADLINE = 240.0
EVENTS = (
    "CREATE STREAM events (id BIGINT, region VARCHAR, price DOUBLE) WITH ('store' = 'f', 'value.format' = '{0}'{1});\n"
)
COPY = "CREATE STREAM copy WITH ('store' = 'f', 'value.format' = '{0}'{1}) AS SELECT {2} FROM events{3};"


@pytest.fixture(scope="session")
def bucket() -> Iterator[Mapping[str, str]]:
    with s3_bucket("files") as settings:
        yield settings


def slow(*values: str) -> Any:
    """Runs with the long tests."""
    return pytest.param(*values, marks=pytest.mark.slow)


@dataclass
class World:
    """Queries over one store of files."""

    spark: SparkSession
    folder: Path
    settings: Mapping[str, str]
    running: list[tuple[PreparedQuery, StreamingQuery]] = field(default_factory=list)
    project: LoadedProject | None = None

    @property
    def store(self) -> FileStore:
        return FileStore(FilesAddress.of(self.settings))

    def place(self, *parts: str) -> str:
        return self.store.address.place(*parts)

    def compile(self, sql: str) -> None:
        keys = "".join(
            f", '{name}' = '{self.settings[option]}'"
            for name, option in (
                ("aws.endpoint_url", "endpoint_url"),
                ("aws.access_key_id", "access_key_id"),
                ("aws.secret_access_key", "secret_access_key"),
            )
            if option in self.settings
        )
        text = f"CREATE STORE f WITH ('type' = S3, 'uris' = '{self.settings['url']}'{keys});\n{sql}"
        settings = Settings(root=self.folder, sql=self.folder, state=self.folder, store="f")
        self.project = compile_texts([("test.sql", text)], settings)
        assert not self.project.errors, "\n".join(error.text() for error in self.project.errors)

    def start(self, name: str = "copy", trigger: Trigger = "continuous", version: int = 1) -> StreamingQuery:
        assert self.project is not None
        query = self.project.queries[name]
        store, sink = self.project.catalog.store("f"), self.project.catalog.store(query.sink.store)
        kind = KINDS["S3"]
        options = ReadOptions(query.scans[0].starting_position)
        prepared = prepare(
            self.spark,
            query,
            reads={scan.source_name: kind.read_spec(store, scan.relation, options, None) for scan in query.scans},
            writes={query.name: KINDS[sink.kind].write_spec(sink, query.sink, query.refresh)},
            identity=SinkIdentity(f"test/{query.name}", version),
            resolve=lambda value: str(value.value).lower() if isinstance(value.value, bool) else str(value.value),
            job_name=query.name,
        )
        patient(prepared)
        started = face.start(prepared, str(self.folder / f"{query.name}-v{version}"), trigger)
        self.running.append((prepared, started))
        return started

    def run(self, name: str = "copy", version: int = 1) -> DsError | None:
        """All that is there now; the failure that ended it."""
        query = self.start(name, "available_now", version)
        end = time.monotonic() + DEADLINE
        while query.isActive:
            assert time.monotonic() < end, "the deadline passed"
            time.sleep(0.02)
        found = face.failure(self.running[-1][0], query)
        self.stop()
        return found

    def send(self, name: str, content: bytes | str, entity: str = "events") -> None:
        self.store.write(self.place(entity, name), content.encode() if isinstance(content, str) else content)

    def files(self, entity: str = "copy") -> dict[str, bytes]:
        """What a reader of plain files sees."""
        store = self.store
        return {f.path: store.read(self.place(entity, f.path)) or b"" for f in store.listed(self.place(entity))}

    def ids(self) -> Counter[int]:
        """Of the rows in JSON files."""
        texts = (gzip.decompress(c) if n.endswith(".gz") else c for n, c in self.files().items())
        return Counter(json.loads(line)["id"] for text in texts for line in text.splitlines())

    def wait(self, check: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not check():
            for prepared, query in self.running:
                fault = None if query.isActive else face.failure(prepared, query)
                assert fault is None, str(fault)
            assert time.monotonic() < end, "the deadline passed"
            time.sleep(0.05)

    def stop(self) -> None:
        for prepared, query in self.running:
            query.stop()
            face.close(prepared)
        self.running.clear()


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.servers)])
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    settings = {"store": "f", "url": (tmp_path / "files").as_uri()}
    if request.param == "bucket":
        settings = {**request.getfixturevalue("bucket"), "store": "f"}
        settings["url"] = f"s3://files/{tmp_path.name}"
    made = World(spark, tmp_path, settings)
    yield made
    made.stop()


@pytest.fixture
def local(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    """A folder, for what does not depend on the store."""
    made = World(spark, tmp_path, {"store": "f", "url": (tmp_path / "files").as_uri()})
    yield made
    made.stop()


def lines(*ids: int) -> str:
    return "".join(json.dumps({"id": n, "region": "EU", "price": n / 2}) + "\n" for n in ids)


def test_new_files_become_rows_once_over_restarts(world: World) -> None:
    world.compile(EVENTS.format("json", "") + COPY.format("json", "", "id, region", ""))
    world.send("a.jsonl", lines(*range(100)))
    world.send("deep/er/b.jsonl.gz", gzip.compress(lines(*range(100, 150)).encode()))
    world.send("_hidden.jsonl", lines(-1))
    world.send(".b.tmp/x.jsonl", lines(-2))
    assert world.run() is None
    world.send("c.jsonl", lines(*range(150, 200)))
    if not world.store.address.url.startswith("s3"):  # a file with an old time is read all the same
        os.utime(world.place("events", "c.jsonl"), (1_600_000_000, 1_600_000_000))
    for _ in range(2):
        assert world.run() is None
    assert world.ids() == Counter(range(200))
    assert len(world.files()) == 2, "a batch is a file, an empty one is none"
    check_a_batch_that_is_done_is_not_written_again(world)


def test_a_running_query_sees_files_as_they_come(world: World) -> None:
    bound = ", 'files.per.batch' = 2, 'files.discovery.millis' = 100"
    world.compile(EVENTS.format("json", bound) + COPY.format("json", ", 'files.compression' = gzip", "id", ""))
    for n in range(5):
        world.send(f"{n}.jsonl", lines(n))
    world.start()
    world.wait(lambda: world.ids() == Counter(range(5)))
    assert len(world.files()) == 3, "two files a batch"
    world.send("later.jsonl", lines(5))
    world.wait(lambda: world.ids() == Counter(range(6)))


def test_latest_begins_with_what_comes(local: World) -> None:
    local.compile(EVENTS.format("json", ", 'starting.position' = latest") + COPY.format("json", "", "id", ""))
    local.send("a.jsonl", lines(1))
    assert local.run() is None
    local.send("b.jsonl", lines(2))
    assert local.run() is None
    assert local.ids() == Counter([2])


# --- a batch that is run again ----------------------------------------------------------------------------------------


class CrashError(RuntimeError):
    """The driver dies."""


@pytest.mark.parametrize("step", [*map(slow, ("ledger", "first file", "done")), "second file"])
def test_a_driver_that_dies_inside_a_batch(local: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_death_inside_a_batch(local, step, monkeypatch)


@pytest.mark.servers
@pytest.mark.parametrize("world", ["bucket"], indirect=True)
@pytest.mark.parametrize("step", [slow("second file"), "done"])
def test_a_driver_that_dies_inside_a_batch_into_a_bucket(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_death_inside_a_batch(world, step, monkeypatch)


def check_death_inside_a_batch(local: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any file, between two files, behind the last one, behind the batch: the rows are there once."""
    local.compile(EVENTS.format("json", "") + COPY.format("json", "", "id, region", " PARTITION BY region"))
    local.send("a.jsonl", '{"id":1,"region":"EU"}\n{"id":2,"region":"US"}\n{"id":3,"region":null}\n')
    assert local.run() is None
    local.send("b.jsonl", '{"id":4,"region":"EU"}\n{"id":5,"region":"A/P"}\n{"id":6,"region":""}\n')
    before = {"ledger": 1, "first file": 2, "second file": 3, "done": 5}[step]
    writes = iter(range(100))
    original = FileStore.write

    def dying(self: FileStore, place: str, content: Any) -> None:
        original(self, place, content)
        if next(writes) + 1 == before:
            raise CrashError

    with monkeypatch.context() as patched:
        patched.setattr(FileStore, "write", dying)
        assert local.run() is not None
    assert local.run() is None
    found = {name.rpartition("/")[0]: content for name, content in local.files().items() if "-0000000001" in name}
    assert found == {
        "region=EU": b'{"id":4}\n',
        "region=A%2FP": b'{"id":5}\n',
        "region=__HIVE_DEFAULT_PARTITION__": b'{"id":6}\n',
    }
    assert sum(content.count(b"\n") for content in local.files().values()) == 6


def check_a_batch_that_is_done_is_not_written_again(world: World) -> None:
    """Spark has not noted the batch the ledger has: rows that would be other ones now change nothing."""
    commits = world.folder / "copy-v1" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for path in (commits / str(newest), commits / f".{newest}.crc"):
        path.unlink(missing_ok=True)
    before = world.files()
    assert world.run() is None
    assert world.files() == before


def batch(*ids: int, regions: tuple[str, ...] = ()) -> pyarrow.Table:
    texts = [json.dumps({"id": n}) for n in ids]
    beside = {"region": list(regions)} if regions else {}
    return pyarrow.table({**beside, "__row": pyarrow.array(texts, pyarrow.string())})


def loader(world: World, version: int = 1, more: str = "") -> Driven:
    from ds_dagster.stores.s3.loader import open_loader

    world.compile(EVENTS.format("json", "") + COPY.format("json", "", "id, region", more))
    assert world.project is not None
    query = world.project.queries["copy"]
    spec = KINDS["S3"].write_spec(world.project.catalog.store("f"), query.sink, query.refresh)
    made = Driven(
        open_loader(
            spec,
            SinkIdentity("test/copy", version),
            lambda value: str(value.value).lower() if isinstance(value.value, bool) else str(value.value),
        )
    )
    made.prepare()
    return made


def test_what_a_cut_off_attempt_left_goes_when_the_next_one_differs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query with random values gives other rows when it runs again."""
    made = loader(world, more=" PARTITION BY region")
    with monkeypatch.context() as patched:
        patched.setattr(made, "_note", lambda ledger, note=made._note: note(ledger) if not ledger.done else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            made.load(batch(1, 2, regions=("EU", "US")), 0)
    assert len(world.files()) == 2
    assert made.load(batch(7, regions=("EU",)), 0).rows == 1
    assert list(world.files().values()) == [b'{"id": 7}\n']
    assert made.load(batch(8), 0).replayed
    assert made.finish() == 2


def test_empty_batches_write_no_file_and_count(world: World) -> None:
    made = loader(world)
    assert made.load(batch(), Tip(0, "aa")).rows == 0
    assert list(world.store.listed(world.place("copy"))) == []
    assert refused(loader(world).loader, CheckpointTip()) == "CHECKPOINT_BEHIND_SINK"


def refused(made: Any, tip: CheckpointTip) -> str:
    with pytest.raises(DsError) as problem:
        made.prepare(tip)
    return problem.value.condition


@pytest.mark.parametrize(
    ("tip", "condition"),
    [
        (CheckpointTip(Tip(0, "aa")), "CHECKPOINT_BEHIND_SINK"),
        (CheckpointTip(Tip(0, "aa"), Tip(1, "cc")), "CHECKPOINT_BEHIND_SINK"),
        (CheckpointTip(Tip(1, "cc")), "CHECKPOINT_BEHIND_SINK"),
        (CheckpointTip(Tip(2, "cc")), "SINK_BEHIND_CHECKPOINT"),
    ],
)
def test_files_and_checkpoint_are_held_against_each_other(local: World, tip: CheckpointTip, condition: str) -> None:
    made = loader(local)
    made.load(batch(1), Tip(0, "aa"))
    made.load(batch(2), Tip(1, "bb"))
    before = local.files()
    assert refused(made.loader, tip) == condition
    made.loader.prepare(CheckpointTip(Tip(0, "aa"), Tip(1, "bb")))
    assert made.loader.load(batch(2), Tip(1, "bb")).replayed
    assert local.files() == before


def test_a_ledger_that_was_removed_is_missed_and_a_file_is_not(local: World) -> None:
    """Whoever reads the files may move them away."""
    made = loader(local)
    made.load(batch(1), 0)
    shutil.rmtree(local.place("copy"))
    made.prepare(CheckpointTip(Tip(0)))
    shutil.rmtree(local.place("_ds_dagster"))
    assert refused(made.loader, CheckpointTip(Tip(0))) == "TARGET_GONE"


def test_a_ledger_of_an_earlier_package_is_taken_over(local: World) -> None:
    """It knew batches by number alone, and not those without rows."""
    made = loader(local)
    made.load(batch(1), 0)
    (ledger,) = Path(local.place("_ds_dagster")).iterdir()
    text = json.loads(ledger.read_text())
    ledger.write_text(json.dumps({name: value for name, value in text.items() if name not in ("offsets", "before")}))
    made.loader.prepare(CheckpointTip(Tip(6, "cc")))
    assert made.loader.load(batch(2), Tip(7, "dd")).rows == 1
    assert refused(made.loader, CheckpointTip(Tip(6, "cc"))) == "CHECKPOINT_BEHIND_SINK"


def test_an_earlier_package_left_no_ledger_where_no_row_came(local: World) -> None:
    """A checkpoint of its: the sink goes on, and from now on its ledger may not be missing."""
    made = loader(local)
    older = CheckpointTip(Tip(6, "cc"), is_older=True)
    for planned in (None, Tip(7, "dd")):
        made.loader.prepare(replace(older, planned=planned))
        (ledger,) = Path(local.place("_ds_dagster")).iterdir()
        ledger.unlink()
    made.loader.prepare(older)
    assert made.loader.load(batch(2), Tip(7, "dd")).rows == 1
    assert refused(made.loader, CheckpointTip(Tip(6, "cc"))) == "CHECKPOINT_BEHIND_SINK"


def test_a_checkpoint_says_once_that_its_sinks_keep_ledgers(local: World) -> None:
    """A query of an earlier package, over batches without rows, goes on, and not without its ledger."""
    local.compile(EVENTS.format("json", "") + COPY.format("json", "", "id", " WHERE id > 5"))
    local.send("a.jsonl", lines(1))
    assert local.run() is None
    shutil.rmtree(local.place("_ds_dagster"))
    with pytest.raises(DsError) as problem:
        local.run()
    assert problem.value.condition == "TARGET_GONE"
    (local.folder / "copy-v1" / "ds-targets.json").unlink()  # what an earlier package left
    assert local.run() is None
    shutil.rmtree(local.place("_ds_dagster"))
    with pytest.raises(DsError) as problem:
        local.run()
    assert problem.value.condition == "TARGET_GONE"


def test_a_part_that_is_cut_short_is_written_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that fails may show what it got when it is closed."""
    made = loader(world)
    whole = made.store.write

    def cut(place: str, content: Any) -> None:
        if "_ds_dagster" in place:
            return whole(place, content)
        whole(place, bytes(content)[:5])
        raise error("STORE_UNREACHABLE", store="f", address="x")

    with monkeypatch.context() as patched:
        patched.setattr(made.store, "write", cut)
        with pytest.raises(DsError):
            made.load(batch(1, 2), 0)
    assert made.load(batch(1, 2), 0).rows == 2
    assert list(world.files().values()) == [b'{"id": 1}\n{"id": 2}\n']


class _Failing:
    """A stream into a bucket whose second part is refused; closing it shows the first one."""

    def __init__(self, shown: dict[str, bytes], place: str) -> None:
        self.shown, self.place = shown, place

    def write(self, content: bytes) -> None:
        self.shown[self.place] = content[:1]
        raise OSError("the part was refused")

    def close(self) -> None:
        return


def test_a_failed_upload_shows_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[str, bytes] = {}

    class System:
        def open_output_stream(self, place: str, compression: None) -> _Failing:
            return _Failing(shown, place)

        def delete_file(self, place: str) -> None:
            del shown[place]

    store = FileStore(FilesAddress("f", "s3://bucket/x"))
    monkeypatch.setattr(store, "system", System)
    with pytest.raises(DsError):
        store.write("bucket/x/a", b"abc")
    assert shown == {}


def test_a_new_version_writes_beside_the_old_one_and_fences_it(world: World) -> None:
    old = loader(world)
    old.load(batch(1), 0)
    loader(world, version=2).load(batch(1), 0)
    with pytest.raises(DsError) as problem:
        old.load(batch(9), 1)
    assert problem.value.condition == "LEDGER_NEWER"
    assert sorted(name.partition("-")[2] for name in world.files()) == ["v1-0000000000.jsonl", "v2-0000000000.jsonl"]


def test_a_ledger_nobody_can_read_is_told(local: World) -> None:
    made = loader(local)
    made.load(batch(1), 0)
    (ledger,) = Path(local.place("_ds_dagster")).iterdir()
    ledger.write_text("{}")
    with pytest.raises(DsError) as problem:
        made.load(batch(2), 1)
    assert problem.value.condition == "FILES_LEDGER_INVALID"


# --- formats ----------------------------------------------------------------------------------------------------------

TYPED = """
CREATE STREAM events (id BIGINT, small TINYINT, name VARCHAR, ok BOOLEAN, price DECIMAL(12,3), ratio DOUBLE, day DATE,
    at TIMESTAMP(6), zoned TIMESTAMP_LTZ(6), raw VARBINARY, tags ARRAY<VARCHAR>, place STRUCT<city VARCHAR, n INTEGER>,
    counts MAP<VARCHAR, BIGINT>) WITH ('store' = 'f', 'value.format' = 'json');
CREATE STREAM middle WITH ('store' = 'f', 'value.format' = '{format}'{more}) AS SELECT * FROM events;
CREATE STREAM copy WITH ('store' = 'f', 'value.format' = 'json') AS SELECT * FROM middle;
"""
ROWS: tuple[dict[str, Any], ...] = (
    {
        "id": 9007199254740993, "small": -7, "name": 'a "quoted", name\nin two; lines', "ok": True,
        "price": 123456789.125, "ratio": 0.1, "day": "2024-02-29", "at": "2024-02-29 23:59:59.000005",
        "zoned": "2024-02-29 23:59:59.000005Z", "raw": "AAH/", "tags": ["x", "y,z"], "place": {"city": "Köln", "n": 1},
        "counts": {"a": 1},
    },
    dict.fromkeys(
        ("id", "small", "name", "ok", "price", "ratio", "day", "at", "zoned", "raw", "tags", "place", "counts")
    ),
    {
        "id": 0, "small": 0, "name": "", "ok": False, "price": 0.0, "ratio": "NaN", "day": "1969-12-31",
        "at": "1969-12-31 00:00:00.000000", "zoned": "1969-12-31 00:00:00.000000Z", "raw": "", "tags": [],
        "place": {"city": None, "n": None}, "counts": {},
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("format_", "more"),
    [
        slow("json", ", 'files.compression' = zstd"),
        slow("csv", ", 'csv.header' = FALSE, 'csv.delimiter' = 'tab', 'files.compression' = gzip"),
        ("csv", ", 'timestamp.format' = iso8601, 'csv.delimiter' = ';'"),
        ("parquet", ""),
    ],
)
def test_all_types_go_through_a_file_and_back(local: World, format_: str, more: str) -> None:
    local.compile(TYPED.replace("{format}", format_).replace("{more}", more))
    local.send("a.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    assert local.run("middle") is None
    assert local.run("copy") is None
    (content,) = local.files().values()
    found = [json.loads(line) for line in content.splitlines()]
    assert sorted(found, key=repr) == sorted(ROWS, key=repr)


@pytest.mark.parametrize(
    ("format_", "reader"), [("json", "read_json"), ("csv", "read_csv"), ("parquet", "read_parquet")]
)
def test_another_engine_reads_what_was_written(local: World, format_: str, reader: str) -> None:
    """DuckDB reads the folder as it is, columns of the path included, and finds what pyarrow put in."""
    local.compile(
        EVENTS.format("parquet", "")
        + COPY.format(format_, "", "id, region, price", " WHERE price < 90 PARTITION BY region")
    )
    table = pyarrow.table(
        {
            "id": range(300),
            "region": ["EU", "US", "A P"] * 100,
            "price": [n / 3 for n in range(300)],
            "unused": [1] * 300,
        }
    )
    out = io.BytesIO()
    parquet.write_table(table, out)
    local.send("a.parquet", out.getvalue())
    assert local.run() is None
    with duckdb.connect() as connection:
        source = f"{reader}('{local.place('copy')}/*/*', hive_partitioning = true)"
        query = "SELECT region, count(*), sum(id), round(sum(price), 6) FROM {} GROUP BY region ORDER BY region"
        found = connection.execute(query.format(source)).fetchall()
        expected = connection.execute(
            query.format("table WHERE price < 90").replace("table ", "'" + local.place("events", "a.parquet") + "' ")
        ).fetchall()
    assert found == expected
    assert len(found) == 3


def test_columns_of_the_path_are_read_and_the_file_goes_before(local: World) -> None:
    local.compile(EVENTS.format("csv", "") + COPY.format("json", "", "id, region, price", ""))
    local.send("region=E%20U/id=3/a.csv", "price\n1.5\n")
    local.send("region=US/b.csv", "id,price,region\n4,,DE\n")
    assert local.run() is None
    (content,) = local.files().values()
    assert sorted(content.splitlines()) == [
        b'{"id":3,"region":"E U","price":1.5}',
        b'{"id":4,"region":"DE","price":null}',
    ]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format_", "name", "content"),
    [
        slow("json", "a.jsonl", '{"id":1}\n{"id":\n'),
        ("json", "a.jsonl", '{"id":1}\n{"id":"x"}\n'),
        slow("csv", "a.csv", "id,region,price\n1,EU,1\nx,EU,1\n"),
        ("csv", "a.csv", "id,region,price\n1,EU,1\n2,EU\n"),
    ],
)
def test_a_row_that_does_not_fit_fails_or_is_left_out(local: World, format_: str, name: str, content: str) -> None:
    ignored = " WITH ('source.deserialization.error.handling' = IGNORE)"
    local.compile(
        EVENTS.format(format_, "")
        + COPY.format("json", "", "id", "")
        + f"CREATE STREAM good WITH ('value.format' = 'json') AS SELECT id FROM events{ignored};"
    )
    local.send(name, content)
    problem = local.run()
    assert problem is not None
    assert problem.condition == "BAD_RECORD"
    assert f"{name} 000000000001" in str(problem)
    assert local.files() == {}
    assert local.run("good") is None
    assert [json.loads(text)["id"] for text in local.files("good").values()] == [1]


@pytest.mark.parametrize(
    ("format_", "content"), [("parquet", b"no parquet"), ("json", b"\x1f\x8b no gzip"), ("csv", b"id,region\n1,\xff\n")]
)
def test_a_file_that_is_broken_is_named(local: World, format_: str, content: bytes) -> None:
    local.compile(EVENTS.format(format_, "") + COPY.format("json", "", "id", ""))
    local.send("a.gz" if content.startswith(b"\x1f") else "a.x", content)
    problem = local.run()
    assert problem is not None
    assert (problem.condition, problem.params["file"][:3]) == (
        "FILE_UNREADABLE",
        "a.g" if content.startswith(b"\x1f") else "a.x",
    )


@pytest.mark.parametrize(("change", "condition"), [("gone", "FILE_GONE"), ("grown", "FILE_CHANGED")])
def test_a_file_that_changes_between_plan_and_read_is_told(
    local: World, change: str, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch was planned and the driver died; somebody touches the file before the batch is run again."""
    local.compile(EVENTS.format("json", "") + COPY.format("json", "", "id", ""))
    local.send("a.jsonl", lines(1))
    with monkeypatch.context() as patched:
        patched.setattr(FilesLoader, "load", lambda *_: 1 / 0)
        assert local.run() is not None
    if change == "gone":
        local.store.delete(local.place("events", "a.jsonl"))
    else:
        local.send("a.jsonl", lines(1, 2))
    problem = local.run()
    assert problem is not None
    assert problem.condition == condition


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_a_row_of_a_file_has_no_key(local: World, format_: str) -> None:
    """rowkey() of rows that are records, and of rows that come with their columns; rowtime() is the file's time."""
    select = "id, rowkey() AS k, rowtime() AS at"
    local.compile(EVENTS.format(format_, "") + COPY.format("json", "", select, " WHERE rowkey() IS NULL"))
    local.send("a", lines(1, 2) if format_ == "json" else "id,region,price\n1,EU,1\n2,US,1\n")
    os.utime(local.place("events", "a"), (1_600_000_000, 1_600_000_000))
    assert local.run() is None
    rows = [json.loads(line) for content in local.files().values() for line in content.splitlines()]
    assert [(row["id"], row.get("k"), row["at"]) for row in rows] == [(n, None, 1_600_000_000_000) for n in (1, 2)]


def test_a_window_over_files_uses_their_column_of_time(local: World) -> None:
    local.compile(
        "CREATE STORE m WITH ('type' = MEMORY);\n"
        "CREATE STREAM events (id BIGINT, at TIMESTAMP_LTZ(3)) WITH ('store' = 'f', 'value.format' = 'csv', "
        "'timestamp' = 'at', 'files.discovery.millis' = 100);\n"
        "CREATE TABLE counts WITH ('store' = 'm') AS SELECT window_start, window_end, COUNT(*) AS n "
        "FROM TUMBLE(events, SIZE 10 SECONDS) WITH ('source.allow.latency.millis' = 1) "
        "GROUP BY window_start, window_end;"
    )

    def counts() -> list[int]:
        return [
            row["n"] for row in sorted(memory_loader.table_rows("m", "counts"), key=lambda row: row["window_start"])
        ]

    memory_loader.clear("m")
    local.send("b.csv", "id,at\n1,2024-01-01 00:00:01Z\n2,2024-01-01T00:00:11Z\n3,2024-01-01 00:00:12Z\n")
    local.start("counts")
    local.wait(lambda: counts() == [1])
    local.send("a.csv", "id,at\n1,2024-01-01 00:00:20.500Z\n")
    local.wait(lambda: counts() == [1, 2])
    memory_loader.clear("m")
