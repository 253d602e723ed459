"""Offsets that a query begins at are looked up at its first start, before Spark reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from ds_dagster.catalog.entity import EntityFacts
from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.reading.extent import Extent
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


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(type(KINDS["KAFKA"]), "admin", lambda *_: made)
    return made


def started(folder: Path, offsets: str, progressed: bool = False, begins: str = "") -> object:
    settings = Settings(root=folder, sql=folder, state=folder, store="k")
    project = compile_texts([("a.sql", SQL.format(offsets))], settings)
    query = project.queries["s"]
    order = StartOrder("s", "1", job_spec(project, query), SinkIdentity("j/s", 1), 1)
    order = dataclasses.replace(order, progressed=progressed, begins=begins)
    specs = store_specs(Compiled(order, project, query, {}, Redactor(), secret_reader(project, {})))
    (read,) = specs.reads.values()
    return read.options["startingOffsets"].value


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
