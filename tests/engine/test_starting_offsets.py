"""Offsets that a query begins at are looked up at its first start, before Spark reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.reading.extent import Extent, Landing
from ds_dagster.catalog.reading.starting import Offsets
from ds_dagster.engine.start import Compiled, store_specs
from ds_dagster.errors import UserError
from ds_dagster.project.load import compile_texts, secret_reader
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.deciding.spec import job_spec
from ds_dagster.runtime.host import StartOrder
from ds_dagster.settings import Settings
from ds_dagster.stores.registry import KINDS

SQL = """CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'h:9092', 'tls.disabled' = TRUE);
CREATE STREAM r (a VARCHAR) WITH ('value.format' = 'json', 'topic.partitions' = 2, 'topic.replicas' = 1);
CREATE STREAM s AS SELECT a FROM r WITH ('starting.position' = offsets, 'starting.offsets' = '{}');"""


class Topic:
    """A topic of two partitions that answers for its store."""

    def __init__(self) -> None:
        self.looks = 0

    def describe(self, entity: str) -> EntityFacts:
        return EntityFacts(entity, MappingProxyType({"topic.partitions": 2, "topic.replicas": 1}))

    def ensure(self, _plan: object) -> EntityFacts:
        return self.describe("r")

    def extents(self, _entity: str, _since: int | None = None) -> Mapping[str, Extent]:
        self.looks += 1
        return {"0": Extent(3, 3, 8), "1": Extent(0, 0, 0)}

    def retention_millis(self, _entity: str) -> None:
        return

    def operations(self) -> Topic:
        return self

    def close(self) -> None:
        return


class Stream(Topic):
    """A Kinesis stream with records 50 and 60 in shard 3, of which older records are gone."""

    extents = None  # type: ignore[assignment]

    def describe(self, entity: str) -> EntityFacts:
        return EntityFacts(entity, MappingProxyType({"topic.shards": 1}))

    def landings(self, _entity: str, offsets: Offsets) -> Mapping[int, Landing | None]:
        self.looks += 1
        named = dict(offsets)
        return {3: Landing(named[3] in (50, 60), 50, named[3] >= 20) if 3 in named else None}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(type(KINDS["KAFKA"]), "admin", lambda *_: made)
    return made


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    made = Stream()
    monkeypatch.setattr(type(KINDS["KINESIS"]), "admin", lambda *_: made)
    return made


def started(
    folder: Path,
    offsets: str,
    progressed: bool = False,
    begins: str = "",
    sql: str = SQL,
    name: str = "startingOffsets",
) -> object:
    settings = Settings(root=folder, sql=folder, state=folder, store="k")
    project = compile_texts([("a.sql", sql.format(offsets))], settings)
    query = project.queries["s"]
    order = StartOrder("s", "1", job_spec(project, query), SinkIdentity("j/s", 1), 1)
    order = dataclasses.replace(order, progressed=progressed, begins=begins)
    specs = store_specs(Compiled(order, project, query, {}, Redactor(), secret_reader(project, {})))
    (read,) = specs.reads.values()
    return read.options[name].value if name in read.options else None


def test_each_partition_has_its_offset(tmp_path: Path, topic: Topic) -> None:
    """Also one that retention removed, where lost records are skipped."""
    assert started(tmp_path, "0:8") == '{"r": {"0": 8, "1": -2}}'
    assert started(tmp_path, "1:0,0:1', 'source.data.loss' = 'skip") == '{"r": {"0": 1, "1": 0}}'
    assert topic.looks == 2


@pytest.mark.parametrize(
    ("offsets", "condition"),
    [
        ("0:9", "STARTING_OFFSET_BEYOND_END"),
        ("0:2", "STARTING_OFFSET_GONE"),
        ("0:3,2:0", "STARTING_PARTITION_UNKNOWN"),
    ],
)
def test_offsets_that_are_not_there_end_the_first_start(
    offsets: str, condition: str, tmp_path: Path, topic: Topic
) -> None:
    with pytest.raises(UserError) as refused:
        started(tmp_path, offsets)
    assert refused.value.condition == condition and "k.r" in refused.value.message


def test_a_checkpoint_and_a_start_from_now_on_need_none(tmp_path: Path, topic: Topic) -> None:
    started(tmp_path, "0:9", progressed=True)
    assert started(tmp_path, "0:9", begins="from_now") == "latest"
    assert topic.looks == 0


KINESIS = """CREATE STORE k WITH ('type' = KINESIS, 'access_region' = 'us-east-1');
CREATE STREAM r (a VARCHAR) WITH ('value.format' = 'json', 'topic.shards' = 1);
CREATE STREAM s AS SELECT a FROM r WITH ('starting.position' = offsets, 'starting.offsets' = '{}');"""
SKIP = "', 'source.data.loss' = 'skip"


def test_a_record_of_a_stream_is_looked_for(tmp_path: Path, stream: Stream) -> None:
    """A removed record is one to skip; the reader counts it."""
    for number in ("3:60", "3:20" + SKIP):
        begin = started(tmp_path, number, sql=KINESIS, name="starting.offsets")
        assert begin == number.removesuffix(SKIP)
    assert stream.looks == 2
    assert started(tmp_path, "3:61", progressed=True, sql=KINESIS, name="starting.offsets") == "3:61"
    assert started(tmp_path, "3:61", begins="from_now", sql=KINESIS, name="starting.offsets") is None
    assert stream.looks == 2


@pytest.mark.parametrize(
    ("offsets", "condition"),
    [
        ("3:20", "STARTING_OFFSET_GONE"),
        ("3:19" + SKIP, "STARTING_OFFSET_UNKNOWN"),
        ("3:55" + SKIP, "STARTING_OFFSET_UNKNOWN"),
        ("3:61", "STARTING_OFFSET_UNKNOWN"),
        ("3:50,4:1" + SKIP, "STARTING_PARTITION_UNKNOWN"),
    ],
)
def test_a_number_that_is_not_in_a_stream_ends_the_first_start(
    offsets: str, condition: str, tmp_path: Path, stream: Stream
) -> None:
    with pytest.raises(UserError) as refused:
        started(tmp_path, offsets, sql=KINESIS, name="starting.offsets")
    assert refused.value.condition == condition and "k.r" in refused.value.message
    assert stream.looks == 1
