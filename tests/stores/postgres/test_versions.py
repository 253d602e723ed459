"""Versions of a view in Postgres: two renames in one transaction, with the grants; nothing is lost."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity, TableTarget, WriteSpec
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.datatypes import BIGINT, VARCHAR
from ds_dagster.errors import DsError
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.loader import PostgresLoader
from ds_dagster.stores.postgres.versions import count, drop, rename, serve, version_table
from tests.driven import Driven
from tests.stores.postgres.test_existing import column

COLUMNS = tuple(column(name, type_, name != "url") for name, type_ in (("url", VARCHAR), ("n", BIGINT)))


def test_names_of_versions_fit_and_differ() -> None:
    names = ["v", "v" * 63, "v" * 62 + "w", "ü" * 31]
    tables = {version_table(name, number) for name in names for number in (1, 12)}
    assert len(tables) == 8 and all(len(table.encode()) <= 63 for table in tables)
    assert version_table("v", 12) == "v__ds_v12"


class Table:
    """A view of a schema and its versions."""

    def __init__(self, settings: Mapping[str, str], schema: str, cursor: Any) -> None:
        self.settings, self.schema, self.cursor = settings, schema, cursor

    def write(self, version: int, *pairs: tuple[str, int], batch: int = 0, table: str = "") -> None:
        """A batch of a version, in its own place or in another table."""
        job = "j" if version == 1 else f"j@{version}"
        loader = Driven(PostgresLoader(self.address, self.target(table or self.place(version)), SinkIdentity(job, 1)))
        loader.prepare(CheckpointTip(Tip(batch - 1)) if batch else CheckpointTip())
        urls, numbers = [url for url, _ in pairs], [n for _, n in pairs]
        loader.load(pyarrow.table({"url": urls, "n": numbers, "__deleted": [False] * len(pairs)}), batch)
        loader.close()

    def serve(self, former: int, version: int) -> None:
        serve(self.spec, self.resolve, former, version)

    def total(self) -> int:
        self.cursor.execute(f"SELECT sum(n) FROM {self.schema}.v")
        return int(self.cursor.fetchone()[0])

    def tables(self) -> set[str]:
        self.cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (self.schema,))
        return {name for (name,) in self.cursor.fetchall()} - {"ds_ledger"}

    @property
    def address(self) -> PostgresAddress:
        return PostgresAddress.of("warehouse", self.settings)

    def place(self, version: int) -> str:
        return "v" if version == 1 else version_table("v", version)

    def target(self, table: str) -> TableTarget:
        return TableTarget((self.schema, table), COLUMNS, ("url",), "upsert")

    @property
    def spec(self) -> WriteSpec:
        options: Any = dict(self.settings)
        return WriteSpec("batch", "warehouse.v", "exactly_once", options=options, table=self.target("v"))

    def resolve(self, value: Any) -> str:
        return str(value)


@pytest.fixture
def table(postgres_settings: Mapping[str, str], postgres_schema: str, postgres_cursor: Any) -> Table:
    view = Table(postgres_settings, postgres_schema, postgres_cursor)
    view.write(1, ("./a", 1))
    view.write(2, ("./a", 10))
    return view


@pytest.fixture
def role(postgres_cursor: Any) -> Iterator[str]:
    name = f"reader_{uuid.uuid4().hex[:8]}"
    postgres_cursor.execute(f"CREATE ROLE {name}")
    yield name
    postgres_cursor.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.mark.servers
def test_a_version_takes_the_name_and_gives_it_back(table: Table) -> None:
    assert table.total() == 1
    for _ in range(2):
        table.serve(1, 2)
        assert (table.total(), table.tables()) == (10, {"v", "v__ds_v1"})
    table.write(2, ("./b", 5), batch=1, table="v")
    assert table.total() == 15, "its ledger goes on under the public name"
    assert [count(table.spec, table.resolve, version) for version in (0, 1, 7)] == [2, 1, 0]
    table.serve(2, 1)
    assert (table.total(), table.tables()) == (1, {"v", "v__ds_v2"})
    table.write(1, ("./b", 2), batch=1)
    assert table.total() == 3
    table.cursor.execute(f"SELECT job, target FROM {table.schema}.ds_ledger WHERE epoch = 0 ORDER BY job")
    assert table.cursor.fetchall() == [("j", "v"), ("j@2", "v__ds_v2")]


@pytest.mark.servers
def test_a_version_that_is_dropped_leaves_nothing(table: Table) -> None:
    table.serve(1, 2)
    for _ in range(2):
        drop(table.spec, table.resolve, 1)
    assert (table.total(), table.tables()) == (10, {"v"})
    table.cursor.execute(f"SELECT DISTINCT job FROM {table.schema}.ds_ledger")
    assert table.cursor.fetchall() == [("j@2",)]


@pytest.mark.servers
def test_grants_go_with_the_name(table: Table, role: str) -> None:
    table.cursor.execute(f"GRANT SELECT ON {table.schema}.v TO {role} WITH GRANT OPTION")
    table.cursor.execute(f"GRANT SELECT ON {table.schema}.v TO PUBLIC")
    table.serve(1, 2)
    table.cursor.execute("SELECT has_table_privilege(%s, %s, 'SELECT WITH GRANT OPTION')", (role, f"{table.schema}.v"))
    assert table.cursor.fetchone() == (True,)
    table.cursor.execute("SELECT relacl::text FROM pg_class WHERE oid = %s::regclass", (f"{table.schema}.v",))
    assert "=r/" in table.cursor.fetchone()[0]


@pytest.mark.servers
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW {schema}.of_theirs AS SELECT url FROM {schema}.v",
        "CREATE INDEX ON {schema}.v (n)",
        "COMMENT ON TABLE {schema}.v IS 'theirs'",
        "ALTER TABLE {schema}.v ENABLE ROW LEVEL SECURITY",
    ],
)
def test_a_table_that_something_hangs_on_keeps_its_name(table: Table, statement: str) -> None:
    table.cursor.execute(statement.format(schema=table.schema))
    with pytest.raises(DsError) as refused:
        table.serve(1, 2)
    assert refused.value.condition == "VERSION_TABLE_HELD" and refused.value.fault.hint == "never"
    assert (table.total(), table.tables()) == (1, {"v", "v__ds_v2"})


@pytest.mark.servers
def test_a_table_that_is_locked_is_tried_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ds_dagster.stores.postgres.versions.PUBLISH_LOCK_MILLIS", 200)
    table.cursor.execute(f"BEGIN; SELECT * FROM {table.schema}.v")
    with pytest.raises(DsError) as refused:
        table.serve(1, 2)
    table.cursor.execute("COMMIT")
    assert refused.value.condition == "TARGET_LOCKED" and refused.value.fault.hint != "never"
    table.serve(1, 2)
    assert table.total() == 10


@pytest.mark.servers
def test_a_view_gets_another_name_with_its_grants_and_its_ledger(table: Table, role: str) -> None:
    table.cursor.execute(f"GRANT SELECT ON {table.schema}.v TO {role}")
    new = replace(table.spec, table=table.target("w"))
    for _ in range(2):
        rename(table.spec, new, table.resolve)
        assert table.tables() == {"w", "v__ds_v2"}
    table.write(1, ("./b", 2), batch=1, table="w")
    table.cursor.execute(f"SELECT sum(n) FROM {table.schema}.w")
    assert table.cursor.fetchone() == (3,)
    table.cursor.execute("SELECT has_table_privilege(%s, %s, 'SELECT')", (role, f"{table.schema}.w"))
    assert table.cursor.fetchone() == (True,)
    table.cursor.execute(f"SELECT DISTINCT target FROM {table.schema}.ds_ledger WHERE job = 'j'")
    assert table.cursor.fetchall() == [("w",)]


@pytest.mark.servers
def test_a_name_that_something_has_is_not_taken(table: Table) -> None:
    table.cursor.execute(f"CREATE TABLE {table.schema}.w (n bigint)")
    with pytest.raises(DsError) as refused:
        rename(table.spec, replace(table.spec, table=table.target("w")), table.resolve)
    assert refused.value.condition == "RENAME_TARGET_TAKEN"
    assert table.tables() == {"v", "w", "v__ds_v2"}
