"""Entity statements over every kind of store: look around, describe, create, change, drop, put a record in, look at it.

What a kind cannot do has to be refused by the one condition for it, with a reason and with what to do instead.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow
import pytest

from ds_dagster.catalog.entity import EntityPlan
from ds_dagster.catalog.entity_operations import EntityOperations, EntityPath, NewRecord
from ds_dagster.catalog.io_spec import SinkIdentity, TableColumn, TableTarget
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.datatypes import BIGINT, VARCHAR
from ds_dagster.errors import DsError
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.names import QualifiedName
from ds_dagster.stores.databricks.connection import WorkspaceAddress
from ds_dagster.stores.databricks.entities import DatabricksEntities
from ds_dagster.stores.databricks.loader import DatabricksLoader
from ds_dagster.stores.delta.connection import LakeAddress
from ds_dagster.stores.delta.entities import DeltaEntities
from ds_dagster.stores.delta.loader import DeltaLoader
from ds_dagster.stores.kafka.admin import KafkaAdmin
from ds_dagster.stores.kinesis.admin import KinesisAdmin
from ds_dagster.stores.local_entities import MemoryEntities, SqliteEntities
from ds_dagster.stores.memory.loader import MemoryLoader, clear
from ds_dagster.stores.postgres.connection import PostgresAddress
from ds_dagster.stores.postgres.entities import PostgresEntities
from ds_dagster.stores.postgres.loader import PostgresLoader
from ds_dagster.stores.snowflake.admin import SnowflakeAdmin
from ds_dagster.stores.snowflake.connection import SnowflakeAddress
from ds_dagster.stores.snowflake.loader import SnowflakeLoader
from ds_dagster.stores.sqlite.loader import SqliteLoader
from ds_dagster.stores.sqlite.views import file_name
from tests.fixtures.warehouse import Workspace
from tests.snowflake_server import DATABASE

pytestmark = [pytest.mark.conformance, pytest.mark.servers]
NO_PLAN = EntityPlan("")


@dataclass(frozen=True)
class Ground:
    """One kind of store with one entity in it.

    Attributes:
        path: of a table that holds the row {"url": "./a", "visits": 1}, or of a topic that holds nothing.
        columns: what DESCRIBE must tell, empty for topics.
        made: a path CREATE ENTITY can make; None where it makes nothing.
        plan: what a new entity needs.
        inserts, drops: whether records can be put in, entities be removed.
    """

    kind: str
    operations: EntityOperations
    path: EntityPath
    columns: tuple[tuple[str, str], ...] = (("url", "VARCHAR"), ("visits", "BIGINT"))
    made: EntityPath | None = None
    plan: EntityPlan = NO_PLAN
    inserts: bool = True
    drops: bool = True

    @property
    def is_topic(self) -> bool:
        return not self.columns


def target(place: tuple[str, ...], text: str, number: str) -> TableTarget:
    columns = (TableColumn("url", VARCHAR, text), TableColumn("visits", BIGINT, number))
    return TableTarget(place, columns, (), "append", "incremental")


def loaded(loader: Any) -> None:
    loader.prepare(CheckpointTip())
    loader.load(pyarrow.table({"url": ["./a"], "visits": pyarrow.array([1], pyarrow.int64())}), Tip(0))
    loader.close()


@pytest.fixture(scope="module")
def streaming(local_servers: Callable[..., LocalAddresses]) -> LocalAddresses:
    return local_servers("kafka", "kinesis")


def _kafka(request: pytest.FixtureRequest, name: str) -> Ground:
    servers = request.getfixturevalue("streaming")
    admin = KafkaAdmin("k", {"bootstrap.servers": str(servers.kafka), "security.protocol": "plaintext"})
    plan = EntityPlan(name, MappingProxyType({"topic.partitions": 2}), MappingProxyType({"retention.ms": "60000"}))
    admin.ensure(plan)
    return Ground("kafka", admin.operations(), (name,), (), (f"{name}.v1",), plan)


def _kinesis(request: pytest.FixtureRequest, name: str) -> Ground:
    servers = request.getfixturevalue("streaming")
    settings = {"endpoint_url": str(servers.kinesis), "region_name": "us-east-2", "aws_access_key_id": "l"}
    admin = KinesisAdmin("n", {**settings, "aws_secret_access_key": "l"})
    plan = EntityPlan(name, MappingProxyType({"topic.shards": 2}))
    admin.ensure(plan)
    return Ground("kinesis", admin.operations(), (name,), (), (f"{name}_2",), plan)


def _postgres(request: pytest.FixtureRequest, name: str) -> Ground:
    address: PostgresAddress = request.getfixturevalue("postgres_address")
    operations = PostgresEntities(address)
    database = operations.path_of_database()
    operations.create((database, name), NO_PLAN)
    loaded(PostgresLoader(address, target((name, "visits"), "text", "bigint"), SinkIdentity("t", 1)))
    return Ground("postgres", operations, (database, name, "visits"), made=(database, f"{name} other"))


def _snowflake(request: pytest.FixtureRequest, name: str) -> Ground:
    address: SnowflakeAddress = request.getfixturevalue("snowflake_address")
    names = ("account_id", "url", "username", "password", "warehouse")
    admin = SnowflakeAdmin("sf", {name: getattr(address, name) for name in names})
    operations = admin.operations()
    operations.create((DATABASE, name), NO_PLAN)
    place = (DATABASE, name.upper(), "VISITS")
    loaded(SnowflakeLoader(address, target(place, "VARCHAR", "NUMBER(38,0)"), SinkIdentity("t", 1)))
    columns = (("URL", "VARCHAR"), ("VISITS", "BIGINT"))
    return Ground("snowflake", operations, (DATABASE, name, "visits"), columns, (DATABASE, f"{name}_other"))


def _delta(request: pytest.FixtureRequest, name: str) -> Ground:
    address = LakeAddress("lake", (request.getfixturevalue("tmp_path") / "lake").as_uri())
    loaded(DeltaLoader(address, address.place("shop", name), target(("shop", name), "string", "bigint"), IDENTITY))
    return Ground("delta", DeltaEntities(address), ("shop", name))


def _delta_s3(request: pytest.FixtureRequest, name: str) -> Ground:
    address = LakeAddress.of("lake", request.getfixturevalue("s3_settings"))
    loaded(DeltaLoader(address, address.place("shop", name), target(("shop", name), "string", "bigint"), IDENTITY))
    return Ground("delta_s3", DeltaEntities(address), ("shop", name))


def _databricks(request: pytest.FixtureRequest, name: str) -> Ground:
    made: Workspace = request.getfixturevalue("dbx")
    path = ("main", "default", name)
    files = LakeAddress.of("dbx", {**made.settings, "url": f"s3://lake/{'/'.join(path)}"}, "DATABRICKS")
    warehouse = WorkspaceAddress.of("dbx", {**made.settings, "url": made.url})
    loader = DeltaLoader(files, files.root, target(path, "string", "bigint"), IDENTITY)
    loaded(DatabricksLoader(warehouse, loader))
    return Ground("databricks", DatabricksEntities(warehouse), path, made=("main", f"{name}_s"))


def _sqlite(request: pytest.FixtureRequest, name: str) -> Ground:
    folder: Path = request.getfixturevalue("tmp_path")
    view = QualifiedName("db", "public", name)
    place = (file_name(view), name)
    loaded(SqliteLoader(folder / place[0], target(place, "TEXT", "INTEGER"), IDENTITY))
    return Ground("sqlite", SqliteEntities("sqlite", folder), view.parts, inserts=False, drops=False)


def _memory(request: pytest.FixtureRequest, name: str) -> Ground:
    loaded(MemoryLoader(("m", name), target(("m", name), "VARCHAR", "BIGINT"), IDENTITY))
    request.addfinalizer(lambda: clear("m"))
    return Ground("memory", MemoryEntities("m"), (name,), inserts=False)


IDENTITY = SinkIdentity("t", 1)
GROUNDS: Mapping[str, Callable[[pytest.FixtureRequest, str], Ground]] = {
    "kafka": _kafka,
    "kinesis": _kinesis,
    "postgres": _postgres,
    "snowflake": _snowflake,
    "delta": _delta,
    "delta_s3": _delta_s3,
    "databricks": _databricks,
    "sqlite": _sqlite,
    "memory": _memory,
}


def condition(step: Callable[[], object]) -> str:
    with pytest.raises(DsError) as problem:
        step()
    assert problem.value.hint
    return problem.value.condition


def values(ground: Ground, limit: int = 10) -> list[Any]:
    return [json.loads(record.value or b"null") for record in ground.operations.sample(ground.path, limit)]


def every_level_leads_to_the_entity(ground: Ground) -> None:
    path = ground.path if ground.kind != "snowflake" else tuple(part.upper() for part in ground.path)
    for depth in range(len(path)):
        nodes = {node.path: node for node in ground.operations.children(path[:depth])}
        assert path[: depth + 1] in nodes
        assert nodes[path[: depth + 1]].is_level == (depth < len(path) - 1)
        assert list(nodes) == sorted(nodes)


def describe_tells_columns_and_size(ground: Ground) -> None:
    found = ground.operations.describe(ground.path)
    assert found is not None
    assert tuple((column.name, str(column.type)) for column in found.columns) == ground.columns
    if not ground.is_topic:
        assert found.facts.size in (0, 1), "an estimate where nobody counted yet"
    absent = (*ground.path[:-1], "nothing_of_that_name")
    assert ground.operations.describe(absent) is None
    if len(ground.path) > 1:
        assert condition(lambda: ground.operations.children((*ground.path[:-2], "no such level"))) == "ENTITY_NOT_FOUND"


def a_record_goes_in_and_is_seen(ground: Ground) -> None:
    record = NewRecord('{"url": "./ä", "visits": 7}', "k" if ground.is_topic else None)
    if not ground.inserts:
        assert condition(lambda: ground.operations.insert(ground.path, record)) == "ENTITY_STATEMENT_REFUSED"
        assert values(ground) == [{"url": "./a", "visits": 1}]
        return
    ground.operations.insert(ground.path, record)
    names = [name for name, _ in ground.columns] or ["url", "visits"]
    assert dict(zip(names, ("./ä", 7), strict=True)) in values(ground)
    missing = (*ground.path[:-1], "no_such_entity")
    assert condition(lambda: ground.operations.insert(missing, record)) == "ENTITY_NOT_FOUND"
    assert condition(lambda: ground.operations.sample(missing, 1)) == "ENTITY_NOT_FOUND"


def what_does_not_fit_is_refused(ground: Ground) -> None:
    if not ground.inserts:
        return
    wrong = ['{"url"', "NaN"] if ground.is_topic else ['{"url"', "[1]", "{}", '{"nothing": 1}', '{"visits": "many"}']
    if ground.kind == "snowflake":
        wrong.remove('{"visits": "many"}')  # the stand-in answers a failed cast as a failed request
    for text in wrong:
        found = condition(lambda text=text: ground.operations.insert(ground.path, NewRecord(text)))  # type: ignore[misc]
        assert found == "ENTITY_RECORD_INVALID", text
    assert condition(lambda: ground.operations.insert(ground.path, NewRecord(None))) == "ENTITY_RECORD_INVALID"
    assert len(values(ground)) == (0 if ground.is_topic else 1)


def an_entity_is_made_and_dropped(ground: Ground) -> None:
    if ground.made is None:
        assert condition(lambda: ground.operations.create(("a", "b", "c"), NO_PLAN)) == "ENTITY_STATEMENT_REFUSED"
        return
    ground.operations.create(ground.made, ground.plan)
    made = ground.made if ground.kind != "snowflake" else tuple(part.upper() for part in ground.made)
    if ground.kind != "databricks":  # its schemas show when they hold a table
        assert made in [node.path for node in ground.operations.children(made[:-1])]
    assert condition(lambda: ground.operations.create(made, ground.plan)) == "ENTITY_EXISTS"
    ground.operations.drop(made)
    assert made not in [node.path for node in ground.operations.children(made[:-1])]
    assert condition(lambda: ground.operations.drop(made)) == "ENTITY_NOT_FOUND"


def a_table_is_dropped(ground: Ground) -> None:
    if not ground.drops:
        assert condition(lambda: ground.operations.drop(ground.path)) == "ENTITY_STATEMENT_REFUSED"
        return
    ground.operations.drop(ground.path)
    assert ground.operations.describe(ground.path) is None
    assert condition(lambda: ground.operations.drop(ground.path)) == "ENTITY_NOT_FOUND"


def an_entity_is_changed(ground: Ground) -> None:
    if not ground.is_topic:
        assert condition(lambda: ground.operations.update(ground.path, NO_PLAN)) == "ENTITY_STATEMENT_REFUSED"
        return
    if ground.kind == "kinesis":
        check_reshards(ground)
        return
    counts, settings = MappingProxyType({"topic.partitions": 4}), MappingProxyType({"retention.ms": "120000"})
    ground.operations.update(ground.path, replace(ground.plan, counts=counts, settings=settings))
    found = ground.operations.describe(ground.path)
    assert found is not None
    assert (found.facts.counts["topic.partitions"], found.facts.settings["retention.ms"]) == (4, "120000")
    for name, wanted in (("topic.partitions", 3), ("topic.replicas", 2)):
        plan = EntityPlan("", MappingProxyType({name: wanted}))
        refusal = condition(lambda plan=plan: ground.operations.update(ground.path, plan))  # type: ignore[misc]
        assert refusal == "ENTITY_NOT_CHANGED"
    odd = EntityPlan("", settings=MappingProxyType({"retention.ms": "never"}))
    with pytest.raises(DsError) as problem:
        ground.operations.update(ground.path, odd)
    assert problem.value.condition == "ENTITY_REFUSED" and "refused to change the settings" in problem.value.message


def check_reshards(ground: Ground) -> None:
    """Shards are split and merged; what was written before is read all the same."""
    wanted = []
    for count in (4, 4, 1, 3):
        record = {"url": "./a", "visits": len(wanted)}
        ground.operations.insert(ground.path, NewRecord(json.dumps(record), f"k{len(wanted)}"))
        wanted.append(record)
        ground.operations.update(ground.path, replace(ground.plan, counts=MappingProxyType({"topic.shards": count})))
        found = ground.operations.describe(ground.path)
        assert found is not None
        assert (found.facts.counts["topic.shards"], found.facts.settings["status"]) == (count, "ACTIVE")
    assert sorted(values(ground), key=lambda record: record["visits"]) == wanted
    missing = ("no_such_entity",)
    assert condition(lambda: ground.operations.update(missing, ground.plan)) == "ENTITY_NOT_FOUND"


def sizes_and_newest_positions_are_told(ground: Ground) -> None:
    if ground.kind not in ("kafka", "delta", "delta_s3"):
        return
    for number in range(3):
        value = json.dumps({"url": f"./{number}", "visits": number})
        ground.operations.insert(ground.path, NewRecord(value, "same" if ground.is_topic else None))
    found = ground.operations.describe(ground.path)
    assert found is not None
    assert found.facts.size == (3 if ground.is_topic else 4)
    assert list(found.newest.values()) == (["2"] if ground.is_topic else ["4"]), "versions: made, loaded, three rows"
    assert len(ground.operations.sample(ground.path, 2)) == 2
    if ground.is_topic:
        assert [value["visits"] for value in values(ground, 2)] == [1, 2], "the newest ones"
        ground.operations.insert(ground.path, NewRecord(None, "same"))
        assert ground.operations.sample(ground.path, 1)[0].value is None


def paths_that_cannot_be_are_refused(ground: Ground) -> None:
    assert condition(lambda: ground.operations.describe(())) == "ENTITY_PATH_INVALID"
    deep = ("a", "b", "c", "d")
    if not ground.kind.startswith("delta"):
        assert condition(lambda: ground.operations.children(deep)) == "ENTITY_PATH_INVALID"


LONG = {"delta_s3": pytest.mark.slow}
"""Kinds of the long tier: Delta in a bucket has the statements of Delta in a folder, and files where Databricks has."""
STEPS = (
    every_level_leads_to_the_entity,
    describe_tells_columns_and_size,
    paths_that_cannot_be_are_refused,
    what_does_not_fit_is_refused,
    sizes_and_newest_positions_are_told,
    an_entity_is_changed,
    a_record_goes_in_and_is_seen,
    an_entity_is_made_and_dropped,
    a_table_is_dropped,
)
"""Behaviours of one entity, each of which begins with what the one before it left: a table with its first row, or a
topic without a record, goes first through what changes nothing."""


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=LONG.get(kind, [])) for kind in GROUNDS])
def test_an_entity_is_listed_described_filled_changed_and_dropped(request: pytest.FixtureRequest, kind: str) -> None:
    """One entity of each kind of store for all of them: to make and load it takes most of the time."""
    ground = GROUNDS[kind](request, f"e_{uuid.uuid4().hex[:8]}")
    with closing(ground.operations):
        for check in STEPS:
            check(ground)
