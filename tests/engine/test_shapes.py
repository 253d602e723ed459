"""New versions of schemas and other columns of tables, noticed while a query runs; and what a look may not do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ds_dagster.catalog.entity_operations import EntityColumn
from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.store import ReadOptions
from ds_dagster.datatypes import BIGINT, VARCHAR
from ds_dagster.engine.query import HostedQuery
from ds_dagster.engine.schemas import known_schemas
from ds_dagster.engine.shape_watch import PAUSE_SECONDS, ShapeWatch
from ds_dagster.engine.shapes import watched_subjects, watched_tables
from ds_dagster.engine.start import Compiled, watched_shapes
from ds_dagster.errors import error
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.host import KnownShape, SourceShape
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.schema_registry import SchemaRegistry
from tests.avro_registry import AvroRegistry
from tests.protobuf_files import proto_file, text_of
from tests.runtime.fakes import FakeClock, settings_in


def resolver(used_by: str) -> Resolver:
    def resolve(value: PropertyValue) -> str:
        return str(value.value)

    return resolve


@pytest.fixture
def registry() -> Iterator[AvroRegistry]:
    with AvroRegistry(compatibility="NONE") as made:
        yield made


class Bench:
    """Running queries whose sources are declared by SQL, and the watch over them."""

    def __init__(self, folder: Path, registry: AvroRegistry) -> None:
        self.folder, self.registry = folder, registry
        self.clock, self.jobs = FakeClock(), list[HostedQuery]()
        self.watch = ShapeWatch(lambda: self.jobs, self.clock.monotonic)

    def project(self, sql: str) -> LoadedProject:
        head = (
            f"CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = '{self.registry.url}');\n"
            "CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'nowhere:9092', 'schema_registry.name' = r);\nUSE STORE k;\n"
        )
        project = compile_texts([("test.sql", head + sql)], settings_in(self.folder))
        assert not project.errors, "\n".join(problem.text() for problem in project.errors)
        return project

    def start(self, sql: str, known: dict[str, KnownShape] | None = None) -> HostedQuery:
        """A query that reads the relations of some statements; they are read by the schemas of this moment."""
        project, shapes = self.project(sql), []
        for relation in project.catalog.relations.values():
            store = project.catalog.store(relation.store)
            spec = KINDS[store.kind].read_spec(store, relation, ReadOptions(), None).schemas
            assert spec is not None
            shapes += watched_subjects(relation.name.name, relation, known_schemas(spec, resolver), resolver("r"))
        return self.hosted(shapes, known)

    def hosted(self, shapes: Sequence[Any], known: dict[str, KnownShape] | None = None) -> HostedQuery:
        order = SimpleNamespace(name=f"q{len(self.jobs)}", incarnation=f"i{len(self.jobs)}", shapes=known or {})
        job = HostedQuery(cast("Any", order), self.clock, phase="running")
        job.shapes = tuple(shapes)
        self.jobs.append(job)
        return job

    def look(self, seconds: float = PAUSE_SECONDS) -> None:
        self.clock.advance(seconds)
        self.watch.round()


@pytest.fixture
def bench(tmp_path: Path, registry: AvroRegistry) -> Bench:
    return Bench(tmp_path, registry)


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


URL, ID = {"name": "url", "type": "string"}, {"name": "id", "type": "long"}
CLICKS = "CREATE STREAM clicks (id BIGINT, url VARCHAR) WITH ('value.format' = 'avro');"
SUBJECT, PATH = "r/clicks-value", "/subjects/clicks-value/versions/latest"


def shape_of(job: HostedQuery, key: str = SUBJECT) -> SourceShape:
    return next(shape for shape in job.observation().shapes if shape.key == key)


def change(job: HostedQuery, key: str = SUBJECT) -> str:
    found = shape_of(job, key).change
    assert found is not None
    return found.message


# -- noticed -----------------------------------------------------------------------------------------------------------


def test_a_new_version_is_noticed_within_a_minute_and_stays_told(bench: Bench) -> None:
    bench.registry.register("clicks-value", record(ID, URL))
    job = bench.start(CLICKS)
    bench.look()
    assert shape_of(job) == SourceShape(SUBJECT, "1", before="1")
    bench.registry.register("clicks-value", record(ID, URL, {"name": "more", "type": "int"}))
    bench.look(PAUSE_SECONDS - 1)
    assert shape_of(job).version == "1", "one request a minute"
    bench.look(1)
    found = shape_of(job)
    assert (found.version, found.before) == ("2", "1")
    assert found.change is not None
    assert found.change.condition == "SOURCE_SCHEMA_CHANGED"
    assert "clicks-value has version 2 in the schema registry r: more is new; it affects no" in found.change.message
    assert "to read more, add it to the columns of default.public.clicks, or run `ds schemas`" in found.change.hint
    assert not job.observation().outdated, "nothing is read in another way"
    bench.look()
    assert shape_of(job) == found, "until there is another one"


@pytest.mark.parametrize(
    ("format_", "first", "second", "difference", "unknown"),
    [
        ("avro", json.dumps(record(ID, URL)), json.dumps(record(ID)), "url is gone; it affects url", "url"),
        (
            "protobuf",
            text_of(proto_file("c.proto", {"C": ["int64 id = 1", "string url = 2"]})),
            text_of(proto_file("c.proto", {"C": ["int64 id = 1", "string link = 2"]})),
            "url is called link; it affects url",
            "url",
        ),
        (
            "json_schema",
            '{"type": "object", "properties": {"id": {"type": "integer"}, "url": {"type": "string"}}}',
            '{"type": "object", "properties": {"id": {"type": "string"}, "url": {"type": "string"}}}',
            "id was integer, is string; it affects id",
            "",
        ),
    ],
    ids=["avro", "protobuf", "json_schema"],
)
def test_every_format(bench: Bench, format_: str, first: str, second: str, difference: str, unknown: str) -> None:
    type_ = {"avro": {}, "protobuf": {"schemaType": "PROTOBUF"}, "json_schema": {"schemaType": "JSON"}}[format_]
    bench.registry.register("clicks-value", first, **type_)
    job = bench.start(CLICKS.replace("avro", format_))
    bench.look()
    job._take_unknown()
    assert job.progress.unknown_columns == 0
    bench.registry.register("clicks-value", second, **type_)
    bench.look()
    job._take_unknown()
    assert difference in change(job)
    told = job.progress.details["sources"].get("clicks", {}).get("unknown_columns", "")
    assert (told, job.progress.unknown_columns) == (unknown, 1 if unknown else 0)


def test_a_version_of_a_time_when_nobody_looked_is_told_after_the_start(bench: Bench) -> None:
    """What the history knows decides, not when the query was started."""
    for fields in ((ID,), (ID, URL), (URL,)):
        bench.registry.register("clicks-value", record(*fields))
    job = bench.start(CLICKS, {SUBJECT: KnownShape("1")})
    bench.look()
    assert shape_of(job).before == "1"
    assert "version 3 in the schema registry r: url is new; id is gone" in change(job)
    assert not job.observation().outdated


def test_a_version_that_is_deleted_cannot_be_compared(bench: Bench) -> None:
    bench.registry.register("clicks-value", record(ID, URL))
    job = bench.start(CLICKS, {SUBJECT: KnownShape("7")})
    bench.look()
    assert "version 7, which was read before, is deleted" in change(job)


def test_keys_have_a_subject_of_their_own(bench: Bench) -> None:
    bench.registry.register("u-value", record(URL))
    bench.registry.register("u-key", record(ID))
    sql = "CREATE CHANGELOG u (id BIGINT, url VARCHAR, PRIMARY KEY(id)) WITH ('value.format' = 'avro');"
    job = bench.start(sql)
    bench.look()
    job._take_unknown()
    assert job.progress.unknown_columns == 0, "the key gives the column that the value does not have"
    bench.registry.register("u-key", record({"name": "id", "type": "string"}))
    bench.look()
    assert "id was long, is string" in change(job, "r/u-key")


# -- read by rule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    [{"name": "url", "type": "string", "aliases": ["link"]}, {"name": "url", "type": "string", "default": "none"}],
    ids=["alias", "default"],
)
def test_a_query_starts_again_where_a_declared_column_is_read_in_another_way(
    bench: Bench, field: dict[str, Any]
) -> None:
    bench.registry.register("clicks-value", record(ID, {"name": "link", "type": "string"}))
    job = bench.start(CLICKS)
    bench.look()
    assert not job.observation().outdated
    bench.registry.register("clicks-value", record(ID, field))
    bench.look()
    assert job.observation().outdated == "version 2 of clicks-value changes how url is read"
    again = bench.start(CLICKS, {SUBJECT: KnownShape("2")})
    bench.look()
    assert not again.observation().outdated, "it reads by version 2 from its first batch on"


def test_an_older_version_of_a_replica_starts_nothing_again(bench: Bench) -> None:
    bench.registry.register("clicks-value", record(ID, {**URL, "default": "none"}))
    bench.registry.register("clicks-value", record(ID, {**URL, "default": "other"}))
    job = bench.start(CLICKS)
    bench.registry.subjects["clicks-value"].pop()
    bench.look()
    assert shape_of(job).version == "1"
    assert not job.observation().outdated


# -- what a look may not do --------------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_a_registry_that_fails_is_told_once_and_harms_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.registry.register("clicks-value", record(ID, URL))
    job = bench.start(CLICKS)
    bench.registry.down = True
    for _ in range(3):
        bench.look()
    assert (len(caplog.records), job.observation().phase, job.observation().failure) == (1, "running", None)
    assert job.observation().shapes == ()
    bench.registry.down = False
    bench.look()
    assert shape_of(job).version == "1"


def test_a_login_is_read_when_the_query_starts_alone(bench: Bench) -> None:
    """Else a rotated secret would count as the one that the query has."""
    bench.registry.register("clicks-value", record(ID, URL))
    project, reads = bench.project(CLICKS), []

    def resolve(value: PropertyValue) -> str:
        reads.append(value)
        return str(value.value)

    (relation,) = project.catalog.relations.values()
    store = project.catalog.store(relation.store)
    spec = KINDS[store.kind].read_spec(store, relation, ReadOptions(), None).schemas
    job = bench.hosted(list(watched_subjects("clicks", relation, spec, resolve)))
    before = len(reads)
    assert before
    for version in ("1", "2"):
        bench.look()
        assert shape_of(job).version == version, "over several connections"
        bench.registry.register("clicks-value", record(ID))
    assert len(reads) == before


def test_a_subject_of_another_type_is_told_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.registry.register("clicks-value", record(ID, URL))
    job = bench.start(CLICKS)
    bench.registry.register("clicks-value", "{}", schemaType="JSON")
    bench.look()
    bench.look()
    (entry,) = caplog.records
    assert "SCHEMA_OF_OTHER_TYPE" in entry.getMessage()
    assert job.observation().shapes == ()


def test_a_look_that_fails_in_an_unknown_way_does_not_end_the_watch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A proxy's page instead of an answer, a schema that nobody thought of: the other sources are looked at."""
    bench.registry.register("clicks-value", record(ID, URL))
    bench.registry.register("views-value", record(ID, URL))
    job = bench.start(CLICKS + CLICKS.replace("clicks", "views"))

    def latest(registry: SchemaRegistry, subject: str, type_: str) -> Any:
        if subject == "clicks-value":
            raise ValueError("s3cret <html>")
        return own(registry, subject, type_)

    own = SchemaRegistry.latest
    monkeypatch.setattr(SchemaRegistry, "latest", latest)
    bench.look()
    bench.look()
    assert [shape.key for shape in job.observation().shapes] == ["r/views-value"]
    (entry,) = caplog.records
    assert "ValueError" in entry.getMessage() and "s3cret" not in entry.getMessage()
    monkeypatch.setattr(SchemaRegistry, "latest", own)
    bench.look()
    assert {shape.key for shape in job.observation().shapes} == {SUBJECT, "r/views-value"}


def test_a_subject_that_does_not_exist_is_nothing(bench: Bench) -> None:
    job = bench.start(CLICKS)
    bench.look()
    job._take_unknown()
    assert (job.observation().shapes, job.progress.unknown_columns) == ((), None)
    bench.registry.register("clicks-value", record(ID, URL))
    bench.look()
    assert shape_of(job).change is None


def test_queries_that_do_not_run_are_left_alone(bench: Bench) -> None:
    bench.registry.register("clicks-value", record(ID, URL))
    job = bench.start(CLICKS)
    job.phase = "starting"
    before = bench.registry.asked(PATH)
    bench.look()
    assert bench.registry.asked(PATH) == before


# -- tables ------------------------------------------------------------------------------------------------------------


class Tables:
    """Operations on the entities of a database."""

    def __init__(self, **columns: str) -> None:
        self.columns, self.closed = columns, 0

    def tables_read(self, relation: Relation) -> dict[str, tuple[Column, ...]]:
        return {"public.orders": (Column("id", BIGINT), Column("name", VARCHAR))}

    def columns_of(self, relation: Relation, table: str) -> list[EntityColumn]:
        types = {"bigint": BIGINT, "text": VARCHAR}
        return [EntityColumn(name, types.get(native), native) for name, native in self.columns.items()]

    def close(self) -> None:
        self.closed += 1


def relation_of_tables() -> Relation:
    found = SimpleNamespace(name="db.public.orders", store="pg", option=lambda _: None)
    return cast("Relation", found)


def test_a_table_that_changes_is_noticed(bench: Bench) -> None:
    tables, relation = Tables(id="bigint", name="text"), relation_of_tables()
    watched = list(watched_tables("orders", relation, lambda: tables))
    job = bench.hosted(watched)
    bench.look()
    first = shape_of(job, "pg/public.orders")
    assert (first.change, first.text) == (None, '{"id": "bigint", "name": "text"}')
    tables.columns = {"id": "bigint", "label": "text"}
    bench.look()
    job._take_unknown()
    assert "public.orders of store pg has other columns: label is new; name is gone; it affects name" in change(
        job, "pg/public.orders"
    )
    found = shape_of(job, "pg/public.orders").change
    assert found is not None
    assert found.condition == "SOURCE_TABLE_CHANGED"
    assert "CDC_COLUMN_GONE" in found.hint
    assert job.progress.details["sources"]["orders"]["unknown_columns"] == "name"
    assert tables.closed == 2
    later = bench.hosted(watched, {"pg/public.orders": KnownShape(first.version, first.text)})
    bench.look()
    assert "label is new" in change(later, "pg/public.orders"), "what the history knows, after a restart of the engine"


def test_a_table_that_is_gone_is_left_to_the_query(bench: Bench) -> None:
    tables = Tables()
    job = bench.hosted(list(watched_tables("orders", relation_of_tables(), lambda: tables)))
    bench.look()
    assert job.observation().shapes == ()


def test_a_database_that_does_not_answer_harms_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Tables):
        def columns_of(self, relation: Relation, table: str) -> list[EntityColumn]:
            raise error("STORE_UNREACHABLE", store="pg", address="h:1", detail="no answer")

    job = bench.hosted(list(watched_tables("orders", relation_of_tables(), Silent)))
    for _ in range(3):
        bench.look()
    assert (len(caplog.records), job.observation().phase) == (1, "running")


def test_a_store_without_tables_is_not_watched() -> None:
    assert not list(watched_tables("s", relation_of_tables(), lambda: object()))


def test_what_is_watched_follows_from_the_relations_that_are_read(bench: Bench) -> None:
    project = bench.project(
        "CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h:1/d', 'postgres.username' = 'u');"
        "CREATE STREAM clicks (id BIGINT, url VARCHAR) WITH ('value.format' = 'avro');"
        "CREATE STREAM plain (id BIGINT) WITH ('value.format' = 'json');"
        "CREATE CHANGELOG orders (id BIGINT, name VARCHAR, PRIMARY KEY(id)) WITH ('store' = 'pg');"
        "CREATE TABLE t WITH ('store' = 'pg') AS SELECT id FROM clicks;"
        "CREATE TABLE u WITH ('store' = 'pg') AS SELECT id FROM plain;"
        "CREATE TABLE v WITH ('store' = 'pg') AS SELECT id FROM orders;"
    )
    watched: dict[str, list[str]] = {}
    for name, query in project.queries.items():
        job = cast("Any", Compiled)(None, project, query, {}, Redactor(), None)
        (scan,) = query.scans
        store, kind, _ = job.store(scan.relation)
        spec = kind.read_spec(store, scan.relation, scan.reading, None)
        watched[name] = [shape.key for shape in watched_shapes(job, scan, spec)]
    assert watched == {"t": [SUBJECT], "u": [], "v": ["pg/public.orders"]}
