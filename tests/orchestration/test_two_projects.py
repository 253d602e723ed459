"""Two projects in one code location: nothing of one meets the other."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

import ds_dagster
from ds_dagster import orchestration
from ds_dagster.errors import DsError
from ds_dagster.orchestration import DsControlResource, DsProject, DsTranslator, build_ds_definitions
from tests.orchestration.conftest import STORES, STREAMS, TABLES, Bench, write_project


@pytest.fixture
def two(tmp_path: Path) -> list[DsProject]:
    roots = [write_project(tmp_path / name, stores=STORES, streams=STREAMS, tables=TABLES) for name in ("a", "b")]
    return [DsProject(root, name=root.name, key_prefix=root.name) for root in roots]


def test_they_share_a_code_location(two: list[DsProject]) -> None:
    merged = dg.Definitions.merge(*map(build_ds_definitions, two))
    dg.Definitions.validate_loadable(merged)
    keys = {key.to_user_string() for key in merged.resolve_asset_graph().get_all_asset_keys()}
    assert {"a/shop/public/desktop", "b/shop/public/desktop"} <= keys
    assert sorted(sensor.name for sensor in merged.sensors or ()) == ["ds_health_a", "ds_health_b"]
    assert sorted(job.name for job in merged.jobs or ()) == ["ds_control_a", "ds_control_b"]
    stores = {f"{kind}_{name}" for kind in ("ds_control", "prod_kafka", "warehouse") for name in "ab"}
    assert set(merged.resources or ()) == stores
    ops = {assets.node_def.name for assets in merged.assets or () if isinstance(assets, dg.AssetsDefinition)}
    assert {"ds_streams_a", "ds_streams_b", "ds_sources_a", "ds_sources_b"} <= ops


def test_broken_files_of_equal_names_do_not_meet(two: list[DsProject]) -> None:
    for project in two:
        write_project(project.root, odd="CREATE NONSENSE;")
    dg.Definitions.validate_loadable(dg.Definitions.merge(*map(build_ds_definitions, two)))


def test_a_named_project_runs(bench: Bench) -> None:
    bench.project = bench.project.renamed("web", "p/q")
    definitions = build_ds_definitions(bench.project, resources={"ds_control": bench.resource()}, observe_sources=False)
    assert set(definitions.resources or ()) == {"ds_control_web", "prod_kafka_web", "warehouse_web"}
    job = definitions.resolve_implicit_global_asset_job_def()
    wanted = [dg.AssetKey(["p", "q", "shop", "public", name]) for name in ("desktop", "loaded")]
    result = job.execute_in_process(asset_selection=wanted, raise_on_error=False)
    assert result.success
    assert len(result.get_asset_check_evaluations()) == 5
    assert bench.control.status("desktop").state == "RUNNING"
    config = {"ops": {"ds_control_web_op": {"config": {"action": "stop", "queries": ["desktop"]}}}}
    assert definitions.resolve_job_def("ds_control_web").execute_in_process(run_config=config).success
    assert bench.control.status("desktop").desired == "STOPPED"


def test_the_resource_of_a_user_goes_by_the_name_without_the_projects(two: list[DsProject]) -> None:
    own = DsControlResource(requested_by="me")
    built = build_ds_definitions(two[0], resources={"ds_control": own, "other": 1}).resources or {}
    assert built["ds_control_a"] is own
    assert built["other"] == 1
    assert "ds_control" not in built


def test_a_translator_has_to_use_the_prefix(two: list[DsProject]) -> None:
    with pytest.raises(DsError) as raised:
        build_ds_definitions(two[0], translator=DsTranslator())
    assert raised.value.condition == "KEY_PREFIX_NOT_USED"
    built = build_ds_definitions(two[0], translator=DsTranslator(two[0].key_prefix))
    assert all(key.path[0] == "a" for key in built.resolve_asset_graph().get_all_asset_keys())


def test_the_package_has_the_names_of_the_surface() -> None:
    assert set(ds_dagster.__all__) == {"__version__", *orchestration.__all__}
    assert ds_dagster.DsProject is DsProject
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ds_dagster.nonsense  # type: ignore[attr-defined]
