"""Relations as asset specs: keys, groups, owners, kinds, schema, lineage, code references; overriding any of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from ds_dagster.clock import duration_seconds
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration import (
    DsProject,
    DsRunConfig,
    DsTranslator,
    RelationProps,
    build_ds_definitions,
    build_ds_health_sensor,
    ds_assets,
    ensure_streams,
)
from tests.orchestration.conftest import STORES, Bench, failure_text, key, materialized, write_project

CLICKS = "CREATE STREAM clicks (url VARCHAR) WITH ('topic' = 'clicks', 'value.format' = 'json');\n"


def specs(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.path[-1]: spec for spec in definitions.resolve_all_asset_specs()}


def test_keys_groups_owners_kinds(project: DsProject) -> None:
    found = specs(build_ds_definitions(project, engine_asset=False))
    assert {name: spec.key.path for name, spec in found.items()} == {
        name: ["shop", "public", name] for name in ("clicks", "desktop", "counts", "visits", "loaded")
    }
    assert found["clicks"].group_name == "web/raw"
    assert found["desktop"].group_name == "streams", "the file's name"
    assert list(found["desktop"].owners) == ["team:web", "someone@example.com"]
    assert found["clicks"].kinds == {"kafka", "stream"}, "nothing of ours fills it"
    assert found["desktop"].kinds == {"spark", "kafka", "stream"}
    assert found["counts"].kinds == {"spark", "kafka", "changelog"}
    assert found["visits"].kinds == {"spark", "sqlite", "view"}
    assert found["loaded"].kinds == {"spark", "postgres", "table"}
    assert found["desktop"].tags["ds/kind"] == "stream"
    assert found["desktop"].tags["ds/store"] == "prod_kafka"


def test_graph_follows_the_queries(project: DsProject) -> None:
    found = specs(build_ds_definitions(project, engine_asset=False))
    deps = {name: {dep.asset_key.path[-1] for dep in spec.deps} for name, spec in found.items()}
    assert deps == {
        "clicks": set(),
        "desktop": {"clicks"},
        "counts": {"clicks"},
        "visits": {"clicks"},
        "loaded": {"counts"},
    }


def test_description_shows_comment_and_sql(project: DsProject) -> None:
    text = specs(build_ds_definitions(project, engine_asset=False))["desktop"].description or ""
    assert text.startswith("Clicks from desktop computers.\n\n```sql\nCREATE STREAM desktop AS SELECT url")
    assert text.endswith("'desktop';\n```")
    assert "@owner" not in text


def test_column_schema_and_lineage(project: DsProject) -> None:
    found = specs(build_ds_definitions(project, engine_asset=False))
    schema = found["counts"].metadata["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchema)
    assert [(column.name, column.type) for column in schema.columns] == [("url", "VARCHAR"), ("n", "BIGINT")]
    assert schema.columns[0].constraints.unique
    assert "primary_key" in (schema.columns[0].tags or {})
    lineage = found["desktop"].metadata["dagster/column_lineage"]
    assert isinstance(lineage, dg.TableColumnLineage)
    assert lineage.deps_by_column["kind"] == [dg.TableColumnDep(key("clicks"), "device")]


def test_a_renamed_query_says_where_it_comes_from(tmp_path: Path) -> None:
    write_project(
        tmp_path, raw=STORES, more=f"{CLICKS}-- @renamed_from old\nCREATE STREAM new AS SELECT url FROM clicks;"
    )
    found = specs(build_ds_definitions(DsProject(tmp_path), engine_asset=False))
    assert found["new"].metadata["ds_dagster/renamed_from"] == "old"
    assert "ds_dagster/renamed_from" not in found["clicks"].metadata


def test_storage_and_code_version(project: DsProject) -> None:
    found = specs(build_ds_definitions(project, engine_asset=False))
    metadata = found["desktop"].metadata
    assert metadata["dagster/uri"] == "kafka://localhost:9092/shop.public.desktop" or str(
        metadata["dagster/uri"]
    ).startswith("kafka://localhost:9092/")
    assert metadata["dagster/storage_kind"] == "kafka"
    assert found["desktop"].code_version == project.project.queries["desktop"].fingerprint
    assert found["clicks"].code_version is None


def test_freshness_policy(project: DsProject) -> None:
    policy = specs(build_ds_definitions(project, engine_asset=False))["desktop"].freshness_policy
    assert policy == dg.FreshnessPolicy.time_window(fail_window=timedelta(minutes=10))


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("2 hours", 7200), ("1d", 86400), ("90s", 90), ("soon", None), ("5", None)]
)
def test_durations(text: str, seconds: int | None) -> None:
    assert duration_seconds(text) == seconds


def code_reference(spec: dg.AssetSpec) -> tuple[str, int]:
    (reference,) = spec.metadata["dagster/code_references"].code_references
    return Path(reference.file_path).name, reference.line_number


def test_code_references_at_load(project: DsProject, folder: Path) -> None:
    found = specs(build_ds_definitions(project, engine_asset=False))
    lines = (folder / "sql" / "streams.sql").read_text(encoding="utf-8").splitlines()
    for name in ("clicks", "desktop", "counts", "visits"):
        file, line = code_reference(found[name])
        assert file == "streams.sql"
        assert f" {name} " in lines[line - 1]


class Mine(DsTranslator):
    """What a user writes."""

    def get_asset_key(self, name: QualifiedName) -> dg.AssetKey:
        return super().get_asset_key(name).with_prefix("mine")

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        return (
            super().get_asset_spec(props).replace_attributes(group_name="streaming").merge_attributes(tags={"a": "b"})
        )


def test_an_override_holds_at_load_and_at_execution(bench: Bench) -> None:
    """One object decides everywhere: keys of dependencies, lineage and checks follow the override, and the same specs
    are there when the assets run."""
    definitions = bench.definitions(Mine())
    found = specs(definitions)
    assert {spec.key.path[0] for spec in found.values()} == {"mine"}
    assert {spec.group_name for spec in found.values()} == {"streaming"}
    assert found["desktop"].tags["a"] == "b"
    assert [dep.asset_key.path for dep in found["desktop"].deps] == [["mine", "shop", "public", "clicks"]]
    lineage = found["desktop"].metadata["dagster/column_lineage"]
    assert lineage.deps_by_column["url"][0].asset_key.path == ["mine", "shop", "public", "clicks"]
    job = definitions.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(asset_selection=[dg.AssetKey(["mine", "shop", "public", "desktop"])])
    (event,) = result.get_asset_materialization_events()
    assert event.asset_key == dg.AssetKey(["mine", "shop", "public", "desktop"])
    assert {e.asset_key for e in result.get_asset_check_evaluations()} == {event.asset_key}
    running = job.asset_layer.asset_graph.get(event.asset_key)
    assert code_reference(running.to_asset_spec()) == code_reference(found["desktop"])


class Moved(DsTranslator):
    """A user's translator, which changes keys the way that Dagster's other integrations do."""

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        spec = super().get_asset_spec(props)
        return spec.replace_attributes(key=spec.key.with_prefix("moved"), deps=[*spec.deps, "dump"])


def test_a_key_changed_in_the_spec_alone_is_followed_everywhere(bench: Bench, instance: dg.DagsterInstance) -> None:
    """Nothing was started and the run was a success, while the checks were on assets of the old keys."""
    translator = Moved()
    definitions = bench.definitions(translator)
    graph = definitions.resolve_asset_graph()
    assert {key.path[0] for key in graph.get_all_asset_keys()} == {"moved", "dump"}
    found = {spec.key.path[-1]: spec for spec in definitions.resolve_all_asset_specs()}
    deps = [dep.asset_key.path for dep in found["desktop"].deps]
    assert deps == [["moved", "shop", "public", "clicks"], ["dump"]]
    lineage = found["desktop"].metadata["dagster/column_lineage"]
    assert lineage.deps_by_column["url"][0].asset_key.path == deps[0]
    moved = dg.AssetKey(["moved", "shop", "public", "desktop"])
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(asset_selection=[moved])
    assert bench.control.status("desktop").state == "RUNNING"
    assert [event.asset_key for event in result.get_asset_materialization_events()] == [moved]
    assert {e.asset_key for e in result.get_asset_check_evaluations()} == {moved}
    sensor = build_ds_health_sensor(bench.project, translator, observe_seconds=None)
    context = dg.build_sensor_context(instance=instance, resources={"ds_control": bench.resource()})
    assert {event.asset_key for event in sensor.evaluate_tick(context).asset_events} == {moved}


@pytest.mark.parametrize("is_given", [True, False])
def test_an_op_of_ones_own_follows_the_keys_of_specs(bench: Bench, is_given: bool) -> None:
    translator = Moved()
    given = translator if is_given else None

    @ds_assets(project=bench.project, translator=translator, required_resource_keys={"ds_control"})
    def streams(context):
        control = context.resources.ds_control
        yield from ensure_streams(context, bench.project, DsRunConfig(), control, given, observe_sources=False)

    assert dg.materialize([streams], resources={"ds_control": bench.resource()}).success
    assert {status.state for status in bench.control.statuses()} == {"RUNNING"}


def test_an_op_with_another_translator_than_its_assets_is_a_failure(bench: Bench) -> None:
    """Not a success that has started nothing."""

    @ds_assets(project=bench.project, translator=Moved(), required_resource_keys={"ds_control"})
    def streams(context):
        control = context.resources.ds_control
        yield from ensure_streams(context, bench.project, DsRunConfig(), control, DsTranslator(), observe_sources=False)

    result = dg.materialize([streams], resources={"ds_control": bench.resource()}, raise_on_error=False)
    assert "no relation is called moved/shop/public/" in failure_text(result)


def test_adopting_is_no_news_under_a_code_version_of_the_translators(
    bench: Bench, instance: dg.DagsterInstance
) -> None:
    class Versioned(DsTranslator):
        def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
            return super().get_asset_spec(props).replace_attributes(code_version="mine")

    job = bench.definitions(Versioned()).resolve_implicit_global_asset_job_def()
    runs = [job.execute_in_process(asset_selection=[key("desktop")], instance=instance) for _ in range(2)]
    assert [materialized(run) for run in runs] == [["desktop"], []]


def test_names_that_dagster_does_not_take_are_spelled_safely(tmp_path: Path) -> None:
    odd = """CREATE STREAM "odd-näme" (x BIGINT) WITH ('topic'='t', 'value.format'='json', 'topic.partitions'=1,
      'topic.replicas'=1);"""
    project = DsProject(write_project(tmp_path, stores=STORES, odd=odd))
    assert [
        spec.key.path[-1] for spec in build_ds_definitions(project, engine_asset=False).resolve_all_asset_specs()
    ] == ["odd_n_me"]


def test_two_relations_with_one_key_are_refused_with_both_places(tmp_path: Path) -> None:
    one = """CREATE STREAM "a-b" (x BIGINT) WITH ('topic'='t', 'value.format'='json', 'topic.partitions'=1,
      'topic.replicas'=1);"""
    project = DsProject(
        write_project(tmp_path, stores=STORES, one=one, two=one.replace("a-b", "a.b").replace("'t'", "'u'"))
    )
    with pytest.raises(DsError) as refused:
        build_ds_definitions(project, engine_asset=False)
    assert refused.value.condition == "ASSET_KEY_COLLISION"
    assert "one.sql:1" in str(refused.value)
    assert "two.sql:1" in str(refused.value)


def test_kinds_of_the_comment_are_added(tmp_path: Path) -> None:
    text = """-- @kinds redpanda, json
CREATE STREAM s (x BIGINT) WITH ('topic'='t', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);"""
    project = DsProject(write_project(tmp_path, stores=STORES, s=text))
    (spec,) = build_ds_definitions(project, engine_asset=False).resolve_all_asset_specs()
    assert spec.kinds == {"kafka", "stream", "redpanda", "json"}


def test_columns_have_the_comments_of_the_sql(tmp_path: Path) -> None:
    clicks = """
    CREATE STREAM clicks (
      -- Page that was opened.
      url VARCHAR,
      device VARCHAR COMMENT 'Kind of computer',
      at_ms BIGINT -- epoch milliseconds
    ) WITH ('topic'='clicks', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);
    CREATE STREAM desktop AS
      SELECT url, device AS kind, at_ms, length(url) AS size -- of the URL, in characters
      FROM clicks;
    """
    described = {
        props.name.name: dict(props.column_comments)
        for props in DsProject(write_project(tmp_path, s=STORES, c=clicks)).props
    }
    assert described["clicks"] == {
        "url": "Page that was opened.",
        "device": "Kind of computer",
        "at_ms": "epoch milliseconds",
    }
    assert described["desktop"] == {
        "url": "Page that was opened.",
        "at_ms": "epoch milliseconds",
        "size": "of the URL, in characters",
    }
    props = next(p for p in DsProject(tmp_path).props if p.name.name == "clicks")
    schema = DsTranslator().get_metadata(props)["dagster/column_schema"]
    assert {column.name: column.description for column in schema.columns} == described["clicks"]


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_code_references_can_lead_to_git(folder: Path) -> None:
    """Dagster's own function takes all assets of a project: those that run, loads and sources."""
    defs = build_ds_definitions(DsProject(folder), engine_asset=False)
    linked = dg.link_code_references_to_git(
        list(defs.assets or ()),  # type: ignore[arg-type]
        git_url="https://github.com/acme/streams",
        git_branch="main",
        file_path_mapping=dg.AnchorBasedFilePathMapping(folder, "streams"),
    )
    urls = {
        spec.key.path[-1]: spec.metadata["dagster/code_references"].code_references[0].url
        for spec in dg.Definitions(assets=linked, resources=defs.resources).resolve_all_asset_specs()
    }
    assert set(urls) == {"clicks", "desktop", "counts", "visits", "loaded"}
    assert urls["loaded"] == "https://github.com/acme/streams/tree/main/streams/sql/tables.sql#L2"
