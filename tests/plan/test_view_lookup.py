"""Views on the right side of a lookup: what the job's slice carries, and what its reader is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster.catalog.reading.tables import VIEW, table_read
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import compile_slice, compile_texts, kind_of_store, slice_of
from ds_dagster.settings import Settings
from ds_dagster.stores.memory.kind import Memory
from ds_dagster.stores.registry import by_name

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u');
CREATE STREAM orders (id INTEGER, shop VARCHAR) WITH ('store' = 'k', 'value.format' = 'json', 'topic.partitions' = 1,
  'topic.replicas' = 1);
CREATE MATERIALIZED VIEW popularity WITH ({with_}) AS SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop;
CREATE STREAM popular AS SELECT o.id, p.n FROM orders o JOIN popularity p ON o.shop = p.shop;
"""
PLACES = {
    "sqlite": "'retention.millis' = 60000",
    "postgres": "'store' = 'pg', 'postgresql.schema.name' = 'shop', 'retention.millis' = 60000",
    "for ever": "'store' = 'pg'",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_slice_names_the_view_and_not_its_query(place: str, tmp_path: Path) -> None:
    settings = Settings(
        root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="k", database="d", schema="public"
    )
    project = compile_texts([("a.sql", SQL.replace("{with_}", PLACES[place]))], settings)
    assert not project.errors
    query = project.queries["popular"]
    alone = compile_slice(slice_of(project, query), settings)
    assert not alone.errors, [one.text() for one in alone.errors]
    assert list(alone.queries) == ["popular"]
    again = alone.queries["popular"]
    assert (again.fingerprint, again.state_signature) == (query.fingerprint, query.state_signature)
    for one, bound in ((project, query), (alone, again)):
        (scan,) = bound.tables
        kind = kind_of_store(one, scan.relation)
        read = table_read(kind, one.catalog.store(scan.relation.store), scan.relation)
        assert read.options[VIEW].value == "d.public.popularity"
        kept = read.options.get("retention.millis")
        assert (kept and kept.value) == (None if place == "for ever" else 60000)
    assert QualifiedName("d", "public", "popularity") in {relation.name for relation in query.inputs}


class Unread(Memory):
    """A kind of a user, whose tables nobody reads."""

    name = "UNREAD"
    capabilities = replace(Memory.capabilities, table_reader="")


def test_a_kind_without_a_reader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ds_dagster.project.load.KINDS", by_name((Unread(),)))
    sql = """CREATE STORE u WITH ('type' = UNREAD);
CREATE STREAM orders (id INTEGER) WITH ('store' = 'u', 'value.format' = 'json');
CREATE TABLE shops (id INTEGER) WITH ('store' = 'u');
CREATE STREAM s WITH ('store' = 'u') AS SELECT o.id FROM orders o JOIN shops p ON o.id = p.id;
"""
    settings = Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds")
    (found,) = compile_texts([("a.sql", sql)], settings).errors
    assert (found.condition, found.span and found.span.line) == ("LOOKUP_NOT_YET", 4)
