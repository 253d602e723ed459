"""Mistakes in the SQL: failing assets instead of a dead code location, and refusals where Dagster validates."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from ds_dagster.errors import ProjectError, UserError
from ds_dagster.orchestration import DsProject, build_ds_definitions
from tests.orchestration.conftest import STORES, STREAMS, Bench, checks, failure_text, key, write_project
from tests.orchestration.health.test_sensor import Sensor, verdicts

BROKEN = """
-- Wrong column.
CREATE STREAM wrong AS SELECT urll FROM clicks;

CREATE STREAM after_wrong AS SELECT * FROM wrong;

CREATE STREAM unparsable AS SELECT FROM WHERE;
"""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write_project(
        tmp_path / "project",
        stores=STORES,
        streams=STREAMS,
        broken=BROKEN,
        noise="THIS IS NOT SQL;",
        bad_store="CREATE STORE odd WITH ('type' = KAFKA, 'urls' = 'localhost:9092');",
        owners=STREAMS.replace("CREATE STREAM clicks", "CREATE STREAM c2")
        .split("-- Clicks from desktop")[0]
        .replace("'topic'='clicks'", "'topic'='c2'")
        .replace("team:web", "nobody"),
    )


def run(definitions: dg.Definitions, *path: str) -> dg.ExecuteInProcessResult:
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(asset_selection=[dg.AssetKey(list(path))], raise_on_error=False)


def test_everything_loads(broken: Path) -> None:
    definitions = build_ds_definitions(DsProject(broken), engine_asset=False)
    dg.Definitions.validate_loadable(definitions)
    names = {"/".join(spec.key.path) for spec in definitions.resolve_all_asset_specs()}
    right = {f"shop/public/{name}" for name in ("clicks", "desktop", "counts", "visits")}
    wrong = {f"shop/public/{name}" for name in ("wrong", "after_wrong", "unparsable", "c2")}
    assert names == right | wrong | {"sql_files/sql_noise_sql", "sql_files/sql_bad_store_sql"}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("shop", "public", "wrong"), "UNKNOWN_COLUMN"),
        (("shop", "public", "after_wrong"), "wrong"),
        (("shop", "public", "unparsable"), "broken.sql:7"),
        (("sql_files", "sql_noise_sql"), "noise.sql:1"),
        (("sql_files", "sql_bad_store_sql"), "uris"),
    ],
)
def test_a_mistake_is_a_failing_asset_and_a_failing_check(broken: Path, path: tuple[str, ...], said: str) -> None:
    result = run(build_ds_definitions(DsProject(broken)), *path)
    assert not result.success
    assert said in failure_text(result)
    assert checks(result) == {(path[-1], "compiles"): False}


def test_a_source_with_a_wrong_tag_stays_a_source(broken: Path) -> None:
    definitions = build_ds_definitions(DsProject(broken), engine_asset=False)
    node = definitions.resolve_asset_graph().get(key("c2"))
    assert (node.is_observable, node.is_materializable) == (True, False)
    job = dg.define_asset_job("look", dg.AssetSelection.checks(dg.AssetCheckKey(key("c2"), "compiles")))
    result = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job])).resolve_job_def("look").execute_in_process()
    assert checks(result) == {("c2", "compiles"): False}
    (failed,) = result.get_asset_check_evaluations()
    assert "OWNER_INVALID" in str(failed.description)


def test_the_statement_is_shown_with_its_place(broken: Path) -> None:
    specs = {spec.key.path[-1]: spec for spec in build_ds_definitions(DsProject(broken)).resolve_all_asset_specs()}
    (reference,) = specs["wrong"].metadata["dagster/code_references"].code_references
    assert (Path(reference.file_path).name, reference.line_number) == ("broken.sql", 3)
    assert "SELECT urll" in (specs["wrong"].description or "")


def test_strict_projects_refuse(broken: Path) -> None:
    with pytest.raises(ProjectError) as refused:
        build_ds_definitions(DsProject(broken, strict=True))
    text = str(refused.value)
    assert "UNKNOWN_COLUMN" in text
    assert "noise.sql" in text


def test_dagsters_validation_is_strict(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_IS_DEFS_VALIDATION_CLI", "1")
    with pytest.raises(ProjectError):
        build_ds_definitions(DsProject(broken))


def test_what_only_the_translator_refuses_is_strict_too(tmp_path: Path) -> None:
    folder = write_project(tmp_path, stores=STORES, streams=STREAMS.replace("@freshness 10m", "@freshness 5s"))
    assert build_ds_definitions(DsProject(folder))
    with pytest.raises(ProjectError) as refused:
        build_ds_definitions(DsProject(folder, strict=True))
    assert "FRESHNESS_INVALID" in str(refused.value)


def test_an_empty_project_loads(tmp_path: Path) -> None:
    definitions = build_ds_definitions(DsProject(write_project(tmp_path)), engine_asset=False)
    dg.Definitions.validate_loadable(definitions)
    assert list(definitions.resolve_all_asset_specs()) == []


@pytest.mark.parametrize("mistake", [("UPPER(device)", "UPPER(devise)"), ("SELECT url, UPPER", "SELECT url,, UPPER")])
def test_a_broken_statement_blinds_nothing_while_its_query_runs(
    bench: Bench, instance: dg.DagsterInstance, mistake: tuple[str, str]
) -> None:
    bench.apply()
    before = bench.definitions().resolve_asset_graph().get(key("desktop"))
    streams = bench.project.root / "sql" / "streams.sql"
    streams.write_text(streams.read_text(encoding="utf-8").replace(*mistake), encoding="utf-8")
    bench.forget()
    assert bench.project.project.errors
    definitions = bench.definitions()
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    after = graph.get(key("desktop"))
    assert after.parent_keys == before.parent_keys
    assert after.kinds == before.kinds
    assert after.code_version == before.code_version, "of what runs"
    names = {check.name for check in graph.asset_check_keys if check.asset_key == key("desktop")}
    assert names == {"running", "lag", "progress", "definition_current", "fresh", "compiles"}
    assert (after.owners, after.freshness_policy) == (before.owners, before.freshness_policy)
    assert bench.control.orphans(bench.project.project) == ()
    sensor = Sensor(bench, instance)
    told = {check: passed for (name, check), passed in verdicts(sensor.tick()).items() if name == "desktop"}
    good = dict.fromkeys(("running", "lag", "progress", "fresh"), True)
    assert told == {**good, "definition_current": False, "compiles": False}
    assert "orphans" not in sensor.skip
    failed = bench.materialize("desktop")
    assert not failed.success
    assert "streams.sql" in failure_text(failed)
    assert bench.materialize("desktop", ds_streams={"action": "stop"}).success, "what runs can be stopped"
    assert bench.control.status("desktop").desired == "STOPPED"


def test_a_statement_without_a_name_keeps_the_assets_of_its_file(bench: Bench) -> None:
    """A syntax error that leaves no name: the file that the job's slice came from tells which it is."""
    bench.apply()
    streams = bench.project.root / "sql" / "streams.sql"
    streams.write_text(
        streams.read_text(encoding="utf-8").replace("CREATE STREAM desktop AS", "CREAT STREM desktop AS"),
        encoding="utf-8",
    )
    bench.forget()
    assert key("desktop") in bench.definitions().resolve_asset_graph().get_all_asset_keys()
    assert bench.control.orphans(bench.project.project) == ()


def test_a_statement_that_is_gone_is_an_orphan_though_another_file_is_broken(bench: Bench) -> None:
    bench.apply()
    streams = bench.project.root / "sql" / "streams.sql"
    text = streams.read_text(encoding="utf-8")
    streams.write_text(text[: text.index("CREATE MATERIALIZED VIEW")], encoding="utf-8")
    write_project(bench.project.root, odd="CREATE NONSENSE;")
    bench.forget()
    assert [orphan.name for orphan in bench.control.orphans(bench.project.project)] == ["visits"]
    assert key("visits") not in bench.definitions().resolve_asset_graph().get_all_asset_keys()


def test_safe_names_that_are_equal_cost_no_code_location(tmp_path: Path) -> None:
    """``a/b.sql`` and ``a_b.sql``, ``public.x_y`` and ``public_x.y``: Dagster loads nothing with two equal names."""
    table = (
        "CREATE TABLE shop.{} WITH ('store'='warehouse', 'refresh.mode'='incremental') AS SELECT url, n FROM counts;"
    )
    tables = "\n".join(["CREATE SCHEMA public_x IN DATABASE shop;", *map(table.format, ("public.x_y", "public_x.y"))])
    folder = write_project(tmp_path, stores=STORES, streams=STREAMS, tables=tables, a_b="CREATE NONSENSE;")
    (folder / "sql" / "a").mkdir()
    (folder / "sql" / "a" / "b.sql").write_text("CREATE NONSENSE;", encoding="utf-8")
    definitions = build_ds_definitions(DsProject(folder))
    dg.Definitions.validate_loadable(definitions)
    keys = {key.path[-1] for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {"x_y", "y", "sql_a_b_sql", "sql_a_b_sql_2"} <= keys
    ops = [assets.op.name for assets in definitions.assets or () if isinstance(assets, dg.AssetsDefinition)]
    assert {"load_shop_public_x_y", "load_shop_public_x_y_2"} <= set(ops)


def test_a_folder_that_is_no_project_is_refused(tmp_path: Path) -> None:
    """It loaded as a project without relations: nothing on the page said that the path was wrong."""
    folder = write_project(tmp_path / "project", stores=STORES, streams=STREAMS)
    for wrong in (tmp_path / "projekt", folder / "sql"):
        with pytest.raises(UserError) as refused:
            DsProject(wrong)
        assert refused.value.condition == "PROJECT_NOT_FOUND"
