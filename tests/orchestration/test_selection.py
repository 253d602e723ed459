"""A code location that shows a part of a project, specs alone, and what is said of the steps."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException

from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration import (
    DsProject,
    DsRunConfig,
    OpOptions,
    build_ds_asset_specs,
    build_ds_definitions,
    ds_assets,
    ensure_streams,
)
from tests.orchestration.conftest import Bench, write_project
from tests.orchestration.test_component import DsProjectComponent, load

APPLICATION = """
BEGIN APPLICATION both
  CREATE STREAM left_side AS SELECT url FROM clicks;
  CREATE STREAM right_side AS SELECT url FROM clicks;
END APPLICATION;
"""


def names(specs: list[dg.AssetSpec]) -> set[str]:
    return {spec.key.path[-1] for spec in specs}


def shown(project: DsProject) -> set[str]:
    definitions = build_ds_definitions(project, engine_asset=False)
    dg.Definitions.validate_loadable(definitions)
    return {key.path[-1] for definition in definitions.assets or () for key in definition.keys}  # type: ignore[union-attr]


def test_specs_alone_have_no_op(project: DsProject) -> None:
    specs = build_ds_asset_specs(project)
    assert names(specs) == {"clicks", "desktop", "counts", "visits", "loaded"}
    elsewhere = dg.Definitions(assets=specs)
    assert not any(assets.is_executable for assets in elsewhere.resolve_asset_graph().assets_defs)
    (counts,) = [spec for spec in specs if spec.key.path[-1] == "counts"]
    assert [dep.asset_key.path[-1] for dep in counts.deps] == ["clicks"]


@pytest.mark.parametrize(
    ("select", "exclude", "expected"),
    [
        ("kind:kafka", "", {"clicks", "desktop", "counts"}),
        ("", "kind:kafka", {"visits", "loaded"}),
        ('key:"shop/public/counts"+', "", {"counts", "loaded"}),
        ('+key:"shop/public/loaded"', "", {"clicks", "counts", "loaded"}),
        ('1+key:"shop/public/loaded"', "", {"counts", "loaded"}),
        ("kind:spark", 'key:"shop/public/v*"', {"desktop", "counts", "loaded"}),
    ],
)
def test_a_part_is_shown(project: DsProject, select: str, exclude: str, expected: set[str]) -> None:
    part = project.narrowed(select, exclude)
    assert names(build_ds_asset_specs(part)) == expected
    assert shown(part) == expected
    checks = build_ds_definitions(part, engine_asset=False).resolve_asset_graph().asset_check_keys
    assert {check.asset_key.path[-1] for check in checks} <= expected


def test_a_part_runs_its_own_queries(bench: Bench) -> None:
    part = bench.project.narrowed('key:"shop/public/desktop"')
    definitions = build_ds_definitions(part, resources={"ds_control": bench.resource()}, observe_sources=False)
    assert definitions.resolve_implicit_global_asset_job_def().execute_in_process().success
    assert bench.control.status("desktop").state == "RUNNING"
    assert bench.control.status("counts").state == "ABSENT"


@pytest.mark.parametrize(("select", "condition"), [("group:nobody", "SELECTION_EMPTY"), ("kind:", "SELECTION_INVALID")])
def test_what_selects_nothing_is_refused(project: DsProject, select: str, condition: str) -> None:
    with pytest.raises(DsError) as refused:
        build_ds_definitions(project.narrowed(select))
    assert refused.value.condition == condition


def test_an_application_is_not_split(project: DsProject) -> None:
    write_project(project.root, app=APPLICATION)
    whole = DsProject(project.root, select="group:app")
    assert names(build_ds_asset_specs(whole)) == {"left_side", "right_side"}
    with pytest.raises(DsError) as refused:
        build_ds_asset_specs(DsProject(project.root, exclude='key:"shop/public/left_side"'))
    assert refused.value.condition == "SELECTION_SPLITS_APPLICATION"


@pytest.mark.parametrize(
    ("select", "exclude", "expected"),
    [
        ("", "", {"desktop", "counts", "visits"}),
        ('key:"shop/public/counts"', "", {"counts"}),
        ('key:"shop/public/*s"', "", {"counts", "visits"}),
        ('key:"shop/public/clicks"+', 'key:"shop/public/visits"', {"desktop", "counts"}),
        ('+key:"shop/public/loaded"', "", {"counts"}),
        ("kind:kafka and kind:changelog", "", {"counts"}),
        ("group:shop or tag:ds/kind=materialized_view", "", {"visits"}),
        ("", "kind:changelog", {"desktop", "visits"}),
    ],
)
def test_an_op_of_ones_own_takes_a_selection(project: DsProject, select: str, exclude: str, expected: set[str]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*include_sources")

        @ds_assets(project=project, select=select, exclude=exclude)
        def chosen(): ...

    assert {key.path[-1] for key in chosen.keys} == expected
    dg.Definitions.validate_loadable(dg.Definitions(assets=[chosen]))


@pytest.mark.parametrize(
    ("select", "condition"),
    [
        ("group:nobody", "SELECTION_EMPTY"),
        ('key:"shop/public/loaded"', "SELECTION_EMPTY"),
        ("kind:", "SELECTION_INVALID"),
        ("status:FAILED", "SELECTION_INVALID"),
        ("not column:url", "SELECTION_INVALID"),
        ('key:"shop/public/left_side"', "SELECTION_SPLITS_APPLICATION"),
        ([QualifiedName("shop", "public", "left_side")], "SELECTION_SPLITS_APPLICATION"),
        ([QualifiedName("shop", "public", name) for name in ("counts", "count")], "UNKNOWN_RELATION"),
        (["counts"], "UNKNOWN_RELATION"),
    ],
)
def test_a_selection_of_an_op_that_cannot_be_is_refused(project: DsProject, select: Any, condition: str) -> None:
    write_project(project.root, app=APPLICATION)
    with pytest.raises(DsError) as refused:
        ds_assets(project=DsProject(project.root), select=select)
    assert refused.value.condition == condition


def test_the_op_starts_the_selected_queries_alone(bench: Bench) -> None:
    @ds_assets(project=bench.project, select='key:"shop/public/counts"', required_resource_keys={"ds_control"})
    def chosen(context):
        control = context.resources.ds_control
        yield from ensure_streams(context, bench.project, DsRunConfig(), control, observe_sources=False)

    assert dg.materialize([chosen], resources={"ds_control": bench.resource()}).success
    assert bench.control.status("counts").state == "RUNNING"
    assert bench.control.status("desktop").state == "ABSENT"


def test_steps_have_a_pool_and_tags(project: DsProject) -> None:
    definitions = build_ds_definitions(project, op=OpOptions("spark", {"team": "web"}, dg.RetryPolicy(max_retries=7)))
    ops = {a.op.name: a.op for a in definitions.assets or () if isinstance(a, dg.AssetsDefinition) and a.is_executable}
    for name in ("ds_streams", "load_shop_public_loaded"):
        assert ops[name].pool == "spark"
        assert ops[name].tags["team"] == "web"
    assert ops["load_shop_public_loaded"].retry_policy == dg.RetryPolicy(max_retries=7)


def test_the_component_takes_the_same(tmp_path: Path) -> None:
    specs = load(
        DsProjectComponent,
        select="kind:kafka",
        exclude="kind:changelog",
        engine_asset=False,
        op={"pool": "p", "tags": {"a": "b"}, "retries": {"max_retries": 7}},
    )
    assert set(specs) == {"clicks", "desktop"}


@pytest.mark.parametrize("name", ["name", "description", "backfill_policy"])
def test_other_options_of_ops_are_refused_by_name(name: str) -> None:
    with pytest.raises(ComponentTreeException) as refused:
        load(DsProjectComponent, op={name: "x"})
    assert f"attributes.op.OpOptionsModel.{name}" in str(refused.value.__cause__)
