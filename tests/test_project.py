"""Folder → project: files, slices that compile alone, the cache, and what never travels."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ds_dagster.errors import ProjectError
from ds_dagster.project import cache as project_cache
from ds_dagster.project.load import LoadedProject, SliceStatement, compile_slice, compile_texts, load_project, slice_of
from ds_dagster.settings import EngineSettings, Overlay, Settings, load_settings
from ds_dagster.testing.compiling import case_settings, compile_case
from ds_dagster.testing.format import load_case
from tests.plan.conftest import PRELUDE

ROOT = Path(__file__).parent.parent
SECRET = "hunter2-very-secret"
SECRETS = f"""
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'host-a:9092', 'kafka.sasl.hash_function' = PLAIN, 'kafka.sasl.username'
= 'me',
  'kafka.sasl.password' = '{SECRET}');
CREATE STORE w WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://h:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${{PW}}');
CREATE STREAM s (a VARCHAR, b BIGINT) WITH ('store' = 'k', 'topic.partitions' = 1, 'topic.replicas' = 1,
'value.format' = 'json'); CREATE TABLE t WITH ('store' = 'w') AS SELECT a FROM s;
"""
KINDS_OF_SOURCES = """
CREATE STREAM keyed AS SELECT url, at, userid FROM clicks PARTITION BY url, userid;
CREATE STREAM primitive WITH ('key.format' = 'primitive', 'key.columns' = 'url', 'value.columns.exclude' = 'url',
  'timestamp' = 'at', 'kafka.topic.retention.ms' = '1000') AS SELECT url, at FROM keyed;
CREATE STREAM "Odd Name" WITH ('topic' = 'odd') AS SELECT url AS "Url", at AS "at the time" FROM primitive;
CREATE STREAM last AS SELECT "Url", "at the time" FROM "Odd Name";
CREATE CHANGELOG counts AS SELECT url, COUNT(*) AS n FROM last_stream GROUP BY url;
CREATE STREAM last_stream (url VARCHAR) WITH ('topic' = 'last', 'value.format' = 'json', 'topic.partitions' = 2,
  'topic.replicas' = 1, 'starting.position' = 'latest', 'key.type' = 'STRUCT<url VARCHAR>');
CREATE CHANGELOG many AS SELECT url, n FROM counts WHERE n > 1;
CREATE TABLE loaded WITH ('store' = 'warehouse', 'refresh.mode' = 'full') AS SELECT * FROM many;
INSERT INTO copies SELECT url, at FROM keyed QUERY WITH ('query.name' = first);
INSERT INTO copies SELECT url, at FROM views QUERY WITH ('query.name' = second);
CREATE ENTITY sized IN STORE kafka WITH ('topic.partitions' = 7, 'topic.replicas' = 1);
CREATE STREAM sized (a VARCHAR) WITH ('value.format' = 'json');
CREATE STREAM from_sized AS SELECT a FROM sized;
CREATE DATABASE other;
CREATE SCHEMA inner_schema IN DATABASE other;
USE SCHEMA other.inner_schema;
CREATE STREAM elsewhere WITH ('store' = 'kafka') AS SELECT * FROM default.public.clicks;
CREATE MATERIALIZED VIEW seen AS SELECT url, COUNT(*) AS n FROM elsewhere GROUP BY url;
"""


def settings_in(folder: Path, **values: object) -> Settings:
    made = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="kafka")
    return dataclasses.replace(made, **values)  # type: ignore[arg-type]


def example(tmp_path: Path) -> tuple[LoadedProject, Settings]:
    settings = load_settings(ROOT, state=tmp_path / ".ds", overlay=Overlay())
    settings = dataclasses.replace(settings, overlay=Overlay())
    return load_project(ROOT, settings=settings), settings


def assert_compiles_alone(project: LoadedProject, settings: Settings) -> None:
    assert project.queries
    for query in project.queries.values():
        alone = compile_slice(slice_of(project, query), settings)
        assert not alone.errors, [d.text() for d in alone.errors]
        assert list(alone.queries) == [query.name]
        other = alone.queries[query.name]
        assert (other.fingerprint, other.state_signature) == (query.fingerprint, query.state_signature)
        assert other.root.output == query.root.output
        assert [part.lineage for part in other.parts] == [part.lineage for part in query.parts]
        assert other.statement.origin.span == query.statement.origin.span


def test_the_example_project_compiles(tmp_path: Path) -> None:
    project, _ = example(tmp_path)
    assert not project.errors, [d.text() for d in project.errors]
    assert not project.broken
    assert {"desktop_clicks", "user_clicks", "url_region_click_count", "pageviews_enriched", "url_visits"} <= set(
        project.queries
    )
    lineage = project.queries["user_clicks"].parts[0].lineage
    assert [f"{relation.name}.{column}" for relation, column in lineage["click_url"]] == ["clicks.url"]
    columns = {column.name for column in project.queries["user_clicks"].sink.columns}
    assert not columns & {"name", "email", "contactinfo"}


def test_slices_of_the_example_project_compile_alone(tmp_path: Path) -> None:
    project, settings = example(tmp_path)
    assert_compiles_alone(project, settings)


def test_slices_of_every_kind_of_source_compile_alone(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    project = compile_texts([("prelude.sql", PRELUDE), ("a.sql", KINDS_OF_SOURCES)], settings)
    assert not project.errors, [d.text() for d in project.errors]
    assert_compiles_alone(project, settings)


CASES = sorted((ROOT / "tests" / "cases").rglob("*.case.yaml"))


@pytest.mark.sweep
@pytest.mark.parametrize("folder", sorted({path.parent.name for path in CASES}))
def test_slices_of_every_case_compile_alone(folder: str, tmp_path: Path) -> None:
    """A job whose slice compiled to another plan would never be the one that was asked for."""
    for path in CASES:
        if path.parent.name == folder and (case := load_case(path)).error is None:
            project = compile_case(case, tmp_path).project
            alone = dataclasses.replace(case_settings(case, tmp_path), sql=tmp_path / "none")  # stores of the slice
            if project.queries:
                assert_compiles_alone(project, alone)


def test_most_cases_are_seen() -> None:
    assert len([path for path in CASES if path.parent.name != "refused"]) > 200


def test_a_slice_holds_nothing_that_is_not_needed(tmp_path: Path) -> None:
    project, _ = example(tmp_path)
    text = "\n".join(statement.text for statement in slice_of(project, project.queries["desktop_clicks"]))
    assert "users" not in text and "warehouse" not in text and "prod_kinesis" not in text


def test_no_secret_and_no_overlay_value_in_a_slice(tmp_path: Path) -> None:
    overlay = Overlay(path="local.toml", stores={"k": {"uris": "127.0.0.1:5555"}})
    settings = settings_in(tmp_path, overlay=overlay)
    project = compile_texts([("a.sql", SECRETS)], settings)
    assert not project.errors, [d.text() for d in project.errors]
    text = "\n".join(statement.text for statement in slice_of(project, project.queries["t"]))
    assert SECRET not in text and "127.0.0.1" not in text
    assert "'kafka.sasl.username' = 'me'" in text and "host-a:9092" in text
    assert SECRET not in "\n".join(d.text() for d in project.diagnostics)


def test_no_secret_in_a_rendering(tmp_path: Path) -> None:
    project = compile_texts([("a.sql", SECRETS)], settings_in(tmp_path))
    assert SECRET not in repr(project)


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("postgresql://h:1/db", f"postgresql://u:{SECRET}@h:1/db"),
        ("${PW}", f"${{PW:-{SECRET}}}"),
        ("${PW}", f"{SECRET}${{PW}}"),
    ],
)
def test_a_secret_inside_a_value_does_not_travel(written: str, instead: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    text = SECRETS.replace(written, instead)
    assert text.count(SECRET) == 2
    project = compile_texts([("a.sql", text)], settings)
    for query in project.queries.values():
        assert SECRET not in str(slice_of(project, query))


def test_a_slice_takes_stores_from_the_project_where_it_has_them(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    project = compile_texts([("a.sql", SECRETS)], settings)
    pieces = slice_of(project, project.queries["t"])
    (tmp_path / "sql").mkdir()
    file = tmp_path / "sql" / "stores.sql"
    file.write_text(SECRETS.replace("host-a:9092", "host-b:9092"), encoding="utf-8")
    alone = compile_slice(pieces, settings)
    assert alone.catalog.stores["k"].properties["uris"].value == "host-b:9092"
    assert alone.catalog.stores["k"].properties["kafka.sasl.password"].value == SECRET
    assert alone.queries["t"].fingerprint == project.queries["t"].fingerprint
    file.write_text(SECRETS.replace("host-a:9092", "host-cc:9092"), encoding="utf-8")
    assert compile_slice(pieces, settings).catalog.stores["k"].properties["uris"].value == "host-cc:9092"


REGISTRIES = f"""
CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = 'http://host-a', 'confluent.username' = 'me',
  'confluent.password' = '{SECRET}');
CREATE SCHEMA_REGISTRY other WITH ('type' = CONFLUENT_CLOUD, 'uris' = 'https://unused');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'x', 'schema_registry.name' = R);
CREATE STREAM s (a BIGINT) WITH ('store' = k, 'value.format' = 'avro');
CREATE STREAM t WITH ('store' = k, 'topic.partitions' = 1, 'topic.replicas' = 1) AS SELECT a FROM s;
"""


def test_slices_and_the_cache_keep_the_schema_registry_and_not_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path)
    project = compile_texts([("a.sql", REGISTRIES)], settings)
    assert [d.condition for d in project.diagnostics] == ["LITERAL_SECRET"]
    assert project.queries["t"].sink.value_format == "avro", "as its source"
    pieces = slice_of(project, project.queries["t"])
    assert SECRET not in str(pieces) and SECRET not in repr(project)
    assert "other" not in str(pieces), "only what the query needs"
    without = compile_slice(pieces, settings)
    assert [d.condition for d in without.errors if not d.caused_by] == ["REGISTRY_PROPERTY_MISSING"], "a secret is away"
    (tmp_path / "sql").mkdir()
    file = tmp_path / "sql" / "stores.sql"
    file.write_text(REGISTRIES.replace("host-a", "host-b"), encoding="utf-8")
    alone = compile_slice(pieces, settings)
    registry = alone.catalog.stores["k"].registry
    assert registry is not None and registry.properties["uris"].value == "http://host-b"
    assert alone.queries["t"].fingerprint == project.queries["t"].fingerprint
    monkeypatch.setattr("ds_dagster.project.cache.WORTH_SECONDS", 0)
    first, kept = load_project(tmp_path, settings=settings), load_project(tmp_path, settings=settings)
    assert first.catalog.stores["k"].registry == kept.catalog.stores["k"].registry == registry
    assert SECRET.encode() not in (settings.state / "cache" / "project.bin").read_bytes()


def test_local_servers_never_write_into_the_registry_of_the_files(tmp_path: Path) -> None:
    overlay = Overlay(path="local.toml", stores={"k": {"uris": "127.0.0.1:5555"}})
    project = compile_texts([("a.sql", REGISTRIES)], settings_in(tmp_path, overlay=overlay))
    assert "AVRO_NEEDS_REGISTRY" in [d.condition for d in project.errors]
    overlay = Overlay(path="local.toml", stores={"k": {"uris": "h:1"}, "r": {"uris": "http://127.0.0.1:8081"}})
    project = compile_texts([("a.sql", REGISTRIES)], settings_in(tmp_path, overlay=overlay))
    assert not project.errors
    registry = project.catalog.stores["k"].registry
    assert registry is not None and set(registry.properties) == {"uris"}, "the login belongs to the other server"


def test_a_slice_is_plain_data(tmp_path: Path) -> None:
    project, _ = example(tmp_path)
    for query in project.queries.values():
        for statement in slice_of(project, query):
            assert isinstance(statement, SliceStatement)
            assert all(isinstance(value, str | int) for value in dataclasses.asdict(statement).values())


def test_strict_raises_all_mistakes_at_once(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "b.sql").write_text(
        PRELUDE + "CREATE STREAM b AS SELECT x FROM clicks;\nCREATE STREAM c AS SELECT * FROM b;"
    )
    (tmp_path / "sql" / "a.sql").write_text("CREATE STREAM a AS SELECT y FROM clicks;\nCRATE x;\n")
    with pytest.raises(ProjectError) as caught:
        load_project(tmp_path, settings=settings_in(tmp_path), strict=True)
    found = [(d.condition, d.span.file if d.span else "") for d in caught.value.diagnostics]
    assert found == [
        ("UNKNOWN_COLUMN", "sql/a.sql"),
        ("STATEMENT_UNKNOWN", "sql/a.sql"),
        ("UNKNOWN_COLUMN", "sql/b.sql"),
        ("UPSTREAM_FAILED", "sql/b.sql"),
    ]
    lenient = load_project(tmp_path, settings=settings_in(tmp_path))
    assert [broken.name.name for broken in lenient.broken] == ["a", "b", "c"]
    assert all(broken.text.startswith("CREATE STREAM") for broken in lenient.broken)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "bad.sql").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "sql" / "good.sql").write_text(PRELUDE)
    project = load_project(tmp_path, settings=settings_in(tmp_path))
    (found,) = project.errors
    assert found.condition == "SQL_FILE_UNREADABLE" and found.span and found.span.file == "sql/bad.sql"
    assert project.catalog.relations


def test_no_folder_of_statements_is_an_empty_project(tmp_path: Path) -> None:
    project = load_project(tmp_path, settings=settings_in(tmp_path))
    assert (project.statements, project.diagnostics, dict(project.queries)) == (0, (), {})


# the cache


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A project whose compiled form is always kept."""
    monkeypatch.setattr(project_cache, "WORTH_SECONDS", -1.0)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(PRELUDE + KINDS_OF_SOURCES)
    (tmp_path / "sql" / "b.sql").write_text(SECRETS)
    (tmp_path / "sql" / "pool.sql").write_text(
        "CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 4); SELECT url FROM clicks;"
    )
    return settings_in(tmp_path)


def never() -> LoadedProject:
    raise AssertionError("compiled although it is kept")


def cache_of(settings: Settings) -> Path:
    return settings.state / "cache" / "project.bin"


def test_what_comes_from_the_cache_is_the_same(kept: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_project(kept.root, settings=kept)
    monkeypatch.setattr("ds_dagster.project.load.compile_texts", lambda *_: never())
    second = load_project(kept.root, settings=kept)
    assert second.diagnostics == first.diagnostics and second.broken == first.broken
    assert second.catalog.relations == first.catalog.relations
    assert dict(second.catalog.stores) == dict(first.catalog.stores)
    assert second.catalog.pools == first.catalog.pools and set(first.catalog.pools or ()) == {"heavy"}
    assert [asked.body.tree for asked in second.asked if asked.body] == [
        asked.body.tree for asked in first.asked if asked.body
    ] != []  # fmt: skip
    assert (second.statements, second.downstream, second.depends_on) == (
        first.statements,
        first.downstream,
        first.depends_on,
    )
    assert list(second.queries) == list(first.queries)
    for name, query in first.queries.items():
        other = second.queries[name]
        assert other.root == query.root
        assert other.sink is second.catalog.relations[query.sink.name] or not query.sink.declared
        assert other.fingerprint == query.fingerprint
        for part, before in zip(other.parts, query.parts, strict=True):
            assert (part.lineage, part.settings) == (before.lineage, before.settings)
        assert other.statement.body.tree == query.statement.body.tree
        assert other.statement.origin == query.statement.origin
    assert_compiles_alone(second, kept)


def test_no_secret_in_the_cache(kept: Settings) -> None:
    settings = dataclasses.replace(
        kept, journal=f"postgresql://u:{SECRET}@h/db", overlay=Overlay(kinds={"KAFKA": {"uris": SECRET}})
    )
    load_project(kept.root, settings=settings)
    assert SECRET.encode() not in cache_of(settings).read_bytes()


@pytest.mark.parametrize(
    "change", ["text", "overlay", "default", "engine", "spark", "version", "damaged", "cut", "foreign"]
)
def test_what_makes_it_compile_anew(change: str, kept: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    load_project(kept.root, settings=kept)
    settings, path = kept, cache_of(kept)
    if change == "text":
        (kept.sql / "c.sql").write_text("CREATE STREAM c AS SELECT url FROM clicks;")
    elif change == "overlay":
        settings = dataclasses.replace(kept, overlay=Overlay(path="x", kinds={"KAFKA": {"uris": "y:1"}}))
    elif change == "default":
        settings = dataclasses.replace(kept, store="k")
    elif change == "engine":
        settings = dataclasses.replace(kept, engine=EngineSettings(master="spark://h:7077"))
    elif change == "spark":
        settings = dataclasses.replace(kept, spark={"spark.executor.cores": "2"})
    elif change == "version":
        monkeypatch.setattr(project_cache, "__version__", "0.0.0")
    elif change == "damaged":
        path.write_bytes(path.read_bytes()[:64] + b"garbage")
    elif change == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.write_bytes(b"0" * 64 + pickle.dumps({"places": []}))
    compiled: list[int] = []
    build = compile_texts

    def counted(*args: object) -> LoadedProject:
        compiled.append(1)
        return build(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("ds_dagster.project.load.compile_texts", counted)
    load_project(kept.root, settings=settings)
    assert compiled


def test_a_folder_that_cannot_be_written_is_no_failure(kept: Settings) -> None:
    kept.state.write_text("a file in the way")
    assert load_project(kept.root, settings=kept).queries


def test_a_small_project_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "a.sql").write_text(PRELUDE)
    settings = settings_in(tmp_path)
    load_project(tmp_path, settings=settings)
    assert not cache_of(settings).exists()


# the load budget: what is done, not how long it takes (that is benchmarks/load_time.py)


def generated(relations: int) -> list[tuple[str, str]]:
    spec = importlib.util.spec_from_file_location("load_time", ROOT / "benchmarks" / "load_time.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.files(relations))


def test_loading_does_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = generated(200)
    settings = settings_in(tmp_path, store="prod_kafka")
    settings.sql.mkdir()
    for name, text in texts:
        (settings.sql / name).write_text(text, encoding="utf-8")
    done: Counter[str] = Counter()

    def count(place: str) -> None:
        module, _, name = place.rpartition(".")
        real = getattr(importlib.import_module(module), name)

        def counted(*args: object, **kwargs: object) -> object:
            done[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(place, counted)

    for place in (
        "ds_dagster.project.load.parse_file",
        "ds_dagster.plan.binding.assemble.bind_query",
        "ds_dagster.plan.binding.binder.rewrite",
    ):
        count(place)
    count("ds_dagster.project.cache.parse_statement")
    count("ds_dagster.project.cache.parse_file")
    monkeypatch.setattr(project_cache, "WORTH_SECONDS", -1.0)
    project = load_project(tmp_path, settings=settings)
    assert not project.errors and len(project.catalog.relations) == 200
    queries = len(project.queries)
    assert (done["bind_query"], done["rewrite"]) == (queries, queries)
    first = dict(done)
    again = load_project(tmp_path, settings=settings)
    assert [query.fingerprint for query in again.queries.values()] == [q.fingerprint for q in project.queries.values()]
    assert (done["bind_query"], done["parse_statement"]) == (first["bind_query"], 0)
    assert done["parse_file"] - first["parse_file"] == 1, "the one CREATE STORE"


def test_loading_imports_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from ds_dagster.project.load import load_project;"
        "from ds_dagster.settings import load_settings;"
        "load_project(Path(sys.argv[1]), settings=load_settings(Path(sys.argv[1]), state=Path(sys.argv[2])));"
        "heavy = {'pyspark', 'boto3', 'confluent_kafka', 'psycopg2', 'sqlalchemy', 'dagster'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(ROOT), str(tmp_path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.strip() == "[]"
