"""The current rows of a changelog, against a plain dictionary, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import compile_texts
from ds_dagster.questions.upkeep import folding
from ds_dagster.questions.upkeep.folding import count_rows, folded, rows_of
from ds_dagster.settings import Settings

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092', 'tls.disabled' = TRUE);
CREATE CHANGELOG c (url VARCHAR, n BIGINT, tags ARRAY<VARCHAR>, later INTEGER NOT NULL, PRIMARY KEY (url)) WITH
  ('store' = 'k', 'topic' = 'c', 'value.format' = 'json', 'key.format' = 'json', 'topic.partitions' = 1);
"""


def record(key: str | None, value: str | None, position: int, partition: int = 0, at: int = 0) -> RawRecord:
    parts = [None if part is None else part.encode() for part in (key, value)]
    return RawRecord(str(partition), str(position), at, *parts)


class Topics:
    """Topics in memory, in place of a store."""

    def __init__(self, records: Mapping[str, Sequence[RawRecord]]) -> None:
        self._records, self.closed = records, 0

    def describe(self, entity: str) -> object:
        return entity if entity in self._records else None

    def records(self, entity: str, **_: Any) -> Iterator[RawRecord]:
        return iter(self._records[entity])

    def close(self) -> None:
        self.closed += 1


def compiled(folder: Path) -> tuple[Any, Any]:
    settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="k")
    project = compile_texts([("a.sql", SQL)], settings)
    return project, project.catalog.relation(QualifiedName("default", "public", "c"))


@pytest.mark.parametrize("seed", range(5))
def test_the_newest_record_of_each_key_counts(seed: int) -> None:
    draw = random.Random(seed)
    rows: dict[bytes, bytes | None] = {}
    records = []
    for number in range(200):
        one = record(draw.choice("abcdefgh"), draw.choice((None, "1", "2")), number)
        assert one.key is not None
        rows[one.key] = one.value
        records.append(one)
    records.insert(draw.randrange(200), record(None, "no key", 0))
    current = folded("c", records, 8)
    assert {key: one.value for key, one in current.items()} == {k: v for k, v in rows.items() if v is not None}


def test_a_key_in_two_partitions_has_its_newest_record() -> None:
    records = [
        record("a", "old", 0, partition=0, at=10),
        record("a", "new", 0, partition=1, at=30),
        record("a", "former", 1, partition=0, at=20),
        record("b", "gone", 2, partition=0, at=20),
        record("b", None, 1, partition=1, at=40),
    ]
    for order in (records, sorted(records, key=lambda one: one.partition, reverse=True)):
        assert {key: one.value for key, one in folded("c", order, 9).items()} == {b"a": b"new"}


def test_more_than_fits_is_refused_with_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DsError, match="the topic c has more than 2 keys"):
        folded("c", [record(key, "1", 0) for key in "abc"], 2)
    monkeypatch.setattr(folding, "MOST_RECORDS", 2)
    with pytest.raises(DsError, match="the topic c has more than 2 records") as refused:
        folded("c", [record("a", "1", number) for number in range(3)], 9)
    assert refused.value.condition == "CHANGELOG_TOO_LARGE" and "ds promote --yes" in refused.value.hint
    assert len(folded("c", [record("a", "1", number) for number in range(2)], 1)) == 1


def test_rows_have_the_types_of_the_relation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        record('{"url":"a"}', '{"url":"a","n":1,"tags":["x"]}', 0),
        record('{"url":"b"}', '{"url":"b","n":null,"later":3}', 1),
        record('{"url":"c"}', None, 2),
    ]
    topics = Topics({"c": records, "c-ds-v2": records[:1], "bad": [record('{"url":"a"}', '{"n":"x"}', 7, partition=3)]})
    monkeypatch.setattr(folding, "store_admin", lambda *_: topics)
    project, relation = compiled(tmp_path)
    table = rows_of(project, relation, "c")
    assert table is not None and table.to_pylist() == [
        {"url": "a", "n": 1, "tags": ["x"], "later": None},
        {"url": "b", "n": None, "tags": None, "later": 3},
    ]
    assert rows_of(project, relation, "c-ds-v3") is None
    assert [count_rows(project, relation, name) for name in ("c", "c-ds-v2", "c-ds-v3")] == [2, 1, 0]
    with pytest.raises(DsError, match="record 3/7 of bad cannot be read as a row of c") as refused:
        rows_of(project, relation, "bad")
    assert refused.value.condition == "CHANGELOG_ROW_UNREADABLE"
    assert topics.closed == 6


def test_formats_of_a_registry_are_counted_and_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "store_admin", lambda *_: Topics({"c": [record("a", "1", 0)]}))
    project, plain = compiled(tmp_path)
    relation = replace(plain, value_format="avro")
    assert count_rows(project, relation, "c") == 1
    with pytest.raises(DsError) as refused:
        rows_of(project, relation, "c")
    assert refused.value.condition == "DIFF_FORMAT_NOT_YET"
