"""Samples as steps of a case, masks, and which SELECT becomes which kind of query; nothing runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.sampling import query_to_try
from ds_dagster.clock import duration_seconds
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from ds_dagster.testing.case import Advance, SendTogether
from ds_dagster.testing.preview import Sampled, check_previewable, steps_of
from ds_dagster.testing.recorded import Mask, masked

SQL = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM s (id VARCHAR, n BIGINT, d DOUBLE)
  WITH ('value.format' = 'json', 'key.format' = 'primitive', 'key.type' = 'VARCHAR');
CREATE CHANGELOG people (id VARCHAR, n BIGINT, PRIMARY KEY (id))
  WITH ('value.format' = 'json', 'key.format' = 'primitive');
CREATE CHANGELOG numbers (id BIGINT, n BIGINT, PRIMARY KEY (id))
  WITH ('value.format' = 'json', 'key.format' = 'primitive');
CREATE STREAM copy AS SELECT * FROM s;
CREATE MATERIALIZED VIEW v AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
CREATE STREAM looked AS SELECT s.id, v.n FROM s JOIN v ON s.id = v.id;
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    root = tmp_path_factory.mktemp("p")
    settings = Settings(root=root, sql=root / "sql", state=root / ".ds", store="m")
    project = compile_texts([("a.sql", SQL)], settings)
    assert not project.errors, project.errors
    return project


@pytest.fixture(scope="module")
def stream(project: LoadedProject) -> Relation:
    return relation(project, "s")


def relation(project: LoadedProject, name: str) -> Relation:
    return project.catalog.relation(QualifiedName("default", "public", name))


def record(at: int, value: object, key: bytes | None = None, position: int = 0) -> RawRecord:
    return RawRecord("0", str(position), at, key, json.dumps(value).encode())


@given(st.lists(st.lists(st.integers(0, 50), max_size=12), min_size=1, max_size=3))
def test_steps_hold_every_record_once_in_the_order_of_time(stream: Relation, moments: list[list[int]]) -> None:
    samples = [
        Sampled(replace(stream, entity=str(n)), tuple(record(at, {"i": i}) for i, at in enumerate(sorted(times))))
        for n, times in enumerate(moments)
    ]
    steps = steps_of(samples)
    for sample in samples:
        together = [send for step in steps if isinstance(step, SendTogether) for send in step.sends]
        sends = [send for send in together if send.topic == sample.relation.entity]
        sent = [(r.at, r.value) for send in sends for r in send.records]
        assert sent == [(r.timestamp_millis, r.value) for r in sample.records]
    if steps:
        assert steps[-1] == Advance(steps[-1].span, max(at for times in moments for at in times))


def test_a_mask_keeps_what_is_equal_and_shows_nothing(project: LoadedProject) -> None:
    stream = relation(project, "s")
    first = record(1, {"id": "ann", "n": 1234, "d": 1.5}, b"ann")
    second = record(2, {"id": "ann", "n": 1234, "d": None}, b"ann")
    (sample,) = masked([Sampled(stream, (first, second))], Mask(frozenset({"id", "n", "d"})))
    values = [json.loads(r.value or b"") for r in sample.records]
    assert values[0]["id"] == values[1]["id"] == (sample.records[0].key or b"").decode()
    assert values[0]["id"].startswith("masked-")
    assert values[0]["n"] == values[1]["n"] != 1234
    assert values[0]["d"] is None
    (again,) = masked([Sampled(stream, (first,))], Mask(frozenset({"id"})))
    assert json.loads(again.records[0].value or b"")["id"] != values[0]["id"], "the salt is another one"


def test_the_key_of_a_deleted_row_is_masked(project: LoadedProject) -> None:
    deleted = RawRecord("0", "0", 1, b"ann", None)
    (sample,) = masked([Sampled(relation(project, "people"), (deleted,))], Mask(frozenset({"id"})))
    assert (sample.records[0].key or b"").startswith(b"masked-")
    (plain,) = masked([Sampled(relation(project, "s"), (record(1, {"id": "bob"}, b"ann"),))], Mask(frozenset({"id"})))
    assert plain.records[0].key == b"ann", "it is another column's value"


def test_what_cannot_be_masked_is_refused(project: LoadedProject) -> None:
    for name, column, condition in (("s", "other", "MASK_UNKNOWN"), ("numbers", "id", "MASK_NOT_YET")):
        sample = Sampled(relation(project, name), (record(1, {"n": 1}, (7).to_bytes(8, "big")),))
        with pytest.raises(DsError) as refused:
            masked([sample], Mask(frozenset({column})))
        assert refused.value.condition == condition


def test_a_select_becomes_the_kind_it_is(project: LoadedProject, tmp_path: Path) -> None:
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "a.sql").write_text(SQL)
    (tmp_path / "try.sql").write_text("SELECT id FROM s;\n")
    settings = Settings(root=tmp_path, sql=folder, state=tmp_path / ".ds", store="m")
    here = compile_texts([("sql/a.sql", SQL)], settings)
    kinds = {
        text: query_to_try(here, text)[1].sink.kind
        for text in ("select id from s", "SELECT id, COUNT(*) AS n FROM s GROUP BY id;", "try.sql", "copy", "V")
    }
    assert list(kinds.values()) == ["stream", "changelog", "stream", "stream", "materialized_view"]


def test_what_reads_no_records_is_not_previewed(project: LoadedProject) -> None:
    check_previewable(project.queries["copy"])
    with pytest.raises(DsError) as refused:
        check_previewable(project.queries["looked"])
    assert refused.value.condition == "PREVIEW_NOT_YET"
    assert "looks up rows of default.public.v" in refused.value.message


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15 m", 900), ("1H", 3600), ("7d", 604800), ("2 mins", 120), ("3 seconds", 3)]
)
def test_durations(text: str, seconds: int) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1w", "1.5h", "10ms", "10 months", "5 sheep"])
def test_what_is_no_duration(text: str) -> None:
    assert duration_seconds(text) is None
