# ruff: noqa: E501 - statements stay on one line
"""Streams joined to tables of warehouses and lakes, and to the project's own views in files and in Postgres."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import kind_of_store
from ds_dagster.stores.postgres.connection import PostgresAddress
from tests import snowflake_server
from tests.driven import Driven
from tests.questions.test_tables import STORES
from tests.spark.conftest import resolve_plain

pytestmark = pytest.mark.servers
COLUMNS = (
    "id BIGINT, ok BOOLEAN, d DOUBLE, m DECIMAL(10,2), name VARCHAR, da DATE, ts TIMESTAMP(3), seen TIMESTAMP_LTZ(3)"
)
ROW: Mapping[str, tuple[Any, pa.DataType]] = {
    "id": (1, pa.int64()), "ok": (True, pa.bool_()), "d": (2.5, pa.float64()),
    "m": (Decimal("12.30"), pa.decimal128(10, 2)), "name": ("Zoë", pa.string()), "da": (date(2024, 2, 29), pa.date32()),
    "ts": (datetime(2024, 1, 2, 3, 4, 5, 678_000), pa.timestamp("us")),  # noqa: DTZ001
    "seen": (datetime(2024, 1, 2, 2, 4, 5, 678_000, tzinfo=timezone.utc), pa.timestamp("us", "UTC")),
}  # fmt: skip
SHOWN = {
    "ok": True, "d": 2.5, "m": 12.3, "name": "Zoë", "da": "2024-02-29", "ts": "2024-01-02 03:04:05.678",
    "seen": "2024-01-02 02:04:05.678Z",
}  # fmt: skip
EMPTY = dict.fromkeys(SHOWN)
EVENTS = (
    "CREATE STREAM events (n INTEGER, thing BIGINT) WITH ('store' = 'm', 'topic' = 'events', 'value.format' = 'json');"
)


def loaded(bench: Any, relation: str, **values: list[Any]) -> None:
    """Rows into a table or view, by its loader: those of :data:`ROW`, and one of NULLs."""
    found = bench.project.catalog.relation(QualifiedName.parse(relation, "default", "public"))
    store = bench.project.catalog.store(found.store)
    spec = kind_of_store(bench.project, found).write_spec(store, found, "continuous")
    module, _, function = spec.loader.partition(":")
    loader = Driven(getattr(importlib.import_module(module), function)(spec, SinkIdentity("loads", 1), resolve_plain))
    rows = {name: pa.array([value, 2 if name == "id" else None], type_) for name, (value, type_) in ROW.items()}
    if found.primary_key:
        rows["__deleted"] = pa.array([False, False])
    loader.prepare()
    loader.load(pa.table(values or {name: rows[name] for name in rows}), 0)
    loader.close()


def sent(bench: Any, query: Any, *events: tuple[int, int | None]) -> list[dict[str, Any]]:
    bench.records.clear()
    bench.send("events", *({"n": n, "thing": thing} for n, thing in events))
    bench.settle(query)
    return sorted(bench.values, key=lambda row: row["n"])


@pytest.fixture(params=["snowflake", "databricks", "delta"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """CREATE STORE, and what a table in it is declared with."""
    monkeypatch.setattr("ds_dagster.stores.snowflake.admin.QUESTION_SECONDS", snowflake_server.CALL_SECONDS)
    with ExitStack() as stack:
        text, place, environment = STORES[request.param](stack, tmp_path)
        for name, value in environment.items():
            text = text.replace("${" + name + "}", value)
        yield f"CREATE STORE x WITH ({text});", place


def test_every_type_of_a_table(bench, store):
    create, place = store
    select = ", ".join(f"t.{name}" for name in SHOWN)
    bench.compile(
        f"""{create} CREATE TABLE goods ({COLUMNS}) WITH ('store' = 'x'{place}); {EVENTS}
            CREATE STREAM s WITH ('store' = 'm') AS SELECT e.n, {select} FROM events e
              LEFT JOIN goods t WITH ('lookup.cache.millis' = 0) ON e.thing = t.id;"""
    )
    loaded(bench, "goods")
    query = bench.start("s")
    found = sent(bench, query, (1, 1), (2, 2), (3, 3), (4, None))
    if "SNOWFLAKE" in create:
        found[1] |= {"ts": None, "seen": None}  # the stand-in makes 1970 of them
    assert found == [{"n": 1} | SHOWN, *({"n": n} | EMPTY for n in (2, 3, 4))]


def test_a_table_that_is_another_is_told(bench, store):
    create, place = store
    bench.compile(
        f"""{create} CREATE TABLE goods ({COLUMNS}) WITH ('store' = 'x'{place});
            CREATE TABLE gone (id BIGINT, nope VARCHAR) WITH ('store' = 'x'{place}); {EVENTS}
            CREATE STREAM s WITH ('store' = 'm') AS SELECT e.n, t.nope FROM events e JOIN gone t ON e.thing = t.id;"""
    )
    query = bench.start("s")
    bench.send("events", {"n": 1, "thing": 1})
    problem = bench.fault(query)
    assert problem.condition in ("LOOKUP_TABLE_DIFFERS", "STORE_PERMISSION_DENIED"), problem.detail


VIEW = f"""{EVENTS}
CREATE STREAM sources ({COLUMNS}) WITH ('store' = 'm', 'topic' = 'sources', 'value.format' = 'json');
"""


def joined(bench: Any, create: str = "", with_: str = "") -> Any:
    select = ", ".join(f"v.{name}" for name in SHOWN)
    bench.compile(
        f"""{create}{VIEW} CREATE MATERIALIZED VIEW things WITH ('retention.millis' = 3600000{with_}) AS SELECT * FROM sources;
            CREATE STREAM s WITH ('store' = 'm') AS SELECT e.n, {select} FROM events e
              LEFT JOIN things v WITH ('lookup.cache.millis' = 0) ON e.thing = v.id;"""
    )
    return bench.start("s")


def test_a_view_in_a_file(bench, monkeypatch):
    query = joined(bench)
    bench.send("events", {"n": 1, "thing": 1})
    problem = bench.fault(query)
    assert (problem.condition, problem.fault.domain) == ("LOOKUP_VIEW_MISSING", "external"), problem.detail
    loaded(bench, "things")
    query = bench.start("s")
    bench.settle(query)
    assert bench.values == [{"n": 1} | SHOWN], "the job is retried"
    assert sent(bench, query, (1, 1), (2, 2), (3, 3)) == [{"n": 1} | SHOWN, {"n": 2} | EMPTY, {"n": 3} | EMPTY]


def test_a_view_in_postgres(bench, tmp_path):
    with ExitStack() as stack:
        text, place, environment = STORES["postgres"](stack, tmp_path)
        password = environment["X_SECRET"]
        create = f"CREATE STORE x WITH ({text.replace('${X_SECRET}', password)});"
        query = joined(bench, create, f", 'store' = 'x'{place}")
        bench.send("events", {"n": 1, "thing": 1})
        problem = bench.fault(query)
        assert problem.condition == "LOOKUP_VIEW_MISSING", problem.detail
        loaded(bench, "things")
        query = bench.start("s")
        bench.settle(query)
        assert bench.values == [{"n": 1} | SHOWN]
        relation = bench.project.catalog.relation(QualifiedName("default", "public", "things"))
        spec = kind_of_store(bench.project, relation).write_spec(
            bench.project.catalog.store("x"), relation, "continuous"
        )
        address = PostgresAddress.of("x", {name: str(value.value) for name, value in spec.options.items()})
        with closing(address.control()) as connection, connection, connection.cursor() as cursor:
            cursor.execute("UPDATE shop.things SET __changed_at = __changed_at - interval '1 hour'")
        assert sent(bench, query, (1, 1)) == [{"n": 1} | EMPTY], "too old, though nobody has deleted it"
        bench.stop()
