"""The component: from YAML to definitions, with the two ways to change the mapping."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from ds_dagster.orchestration import DsControlResource, DsProjectComponent, DsRunConfig, RelationProps
from tests.orchestration.conftest import STORES, STREAMS, write_project


def load(component: type[DsProjectComponent], **attributes: Any) -> dict[str, dg.AssetSpec]:
    with loaded(component, **attributes) as (_, definitions):
        return {spec.key.path[-1]: spec for spec in definitions.resolve_all_asset_specs()}


@contextmanager
def loaded(
    component: type[DsProjectComponent], **attributes: Any
) -> Iterator[tuple[DsProjectComponent, dg.Definitions]]:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.defs_folder_path / "streaming"
        path.mkdir(parents=True)
        write_project(path / "streams", stores=STORES, streams=STREAMS)
        content: dict[str, Any] = {
            "type": f"{component.__module__}.{component.__name__}",
            "attributes": {"project": "streams", **attributes},
        }
        (path / "defs.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        with sandbox.load_component_and_build_defs(defs_path=path) as (made, definitions):
            assert isinstance(made, DsProjectComponent)
            dg.Definitions.validate_loadable(definitions)
            yield made, definitions


def test_a_folder_becomes_assets() -> None:
    specs = load(DsProjectComponent)
    assert set(specs) == {"clicks", "desktop", "counts", "visits", "ds_engine"}
    assert specs["desktop"].key.path == ["shop", "public", "desktop"]


def test_yaml_changes_attributes() -> None:
    specs = load(
        DsProjectComponent,
        translation={"group_name": "g_{{ relation.kind }}", "tags": {"team": "web"}},
    )
    assert specs["desktop"].group_name == "g_stream"
    assert specs["counts"].group_name == "g_changelog"
    assert specs["counts"].tags["team"] == "web"
    assert specs["counts"].tags["ds/kind"] == "changelog", "tags are added, not replaced"


def test_a_key_changed_in_yaml_is_followed_everywhere() -> None:
    specs = load(DsProjectComponent, translation={"key": "flat/{{ relation.name.name }}"})
    assert specs["desktop"].key.path == ["flat", "desktop"]
    assert [dep.asset_key.path for dep in specs["desktop"].deps] == [["flat", "clicks"]]
    lineage = specs["desktop"].metadata["dagster/column_lineage"]
    assert lineage.deps_by_column["url"][0].asset_key.path == ["flat", "clicks"]


def test_dependencies_written_in_yaml_are_heard() -> None:
    specs = load(DsProjectComponent, translation={"deps": ["raw/dump"]})
    assert ["raw", "dump"] in [dep.asset_key.path for dep in specs["desktop"].deps]


def test_a_tag_that_means_nothing_costs_no_code_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.STREAMS", STREAMS.replace("@freshness 10m", "@freshness soon"))
    specs = load(DsProjectComponent, translation={"key": "flat/{{ relation.name.name }}"})
    assert specs["desktop"].key.path == ["flat", "desktop"]
    assert specs["desktop"].freshness_policy is None
    assert [dep.asset_key.path for dep in specs["desktop"].deps] == [["flat", "clicks"]]


class Prefixed(DsProjectComponent):
    """A user's subclass."""

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        spec = super().get_asset_spec(props)
        return spec.replace_attributes(key=spec.key.with_prefix("p"), description="changed")


def test_a_subclass_overrides_the_spec() -> None:
    specs = load(Prefixed)
    assert specs["desktop"].key.path == ["p", "shop", "public", "desktop"]
    assert specs["desktop"].description == "changed"
    assert [dep.asset_key.path[0] for dep in specs["desktop"].deps] == ["p"]


class Announced(DsProjectComponent):
    """A user's subclass, which starts nothing."""

    def execute(
        self, context: dg.AssetExecutionContext, config: DsRunConfig, ds_control: DsControlResource
    ) -> Iterator[dg.MaterializeResult[Any]]:
        assert isinstance(ds_control, DsControlResource) and config.action == "ensure"
        for key in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=key, metadata={"announced": self.project.root.name})


def test_a_subclass_overrides_the_step() -> None:
    with loaded(Announced) as (_, definitions):
        job = definitions.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(["shop", "public", name]) for name in ("desktop", "counts")]
        run = job.execute_in_process(asset_selection=keys)
        events = {event.asset_key: event.materialization for event in run.get_asset_materialization_events()}
    assert set(events) == set(keys)
    assert all(event.metadata["announced"].value == "streams" for event in events.values())


def test_values_of_stores_in_yaml() -> None:
    values = {"uris": "other:9092", "username": "me", "password": "${KAFKA_PASSWORD}", "hash_function": "PLAIN"}
    with loaded(DsProjectComponent, resources={"prod_kafka": values}) as (component, definitions):
        assert (definitions.resources or {})["prod_kafka"].uris == "other:9092"
        assert component.project.settings.store_values["prod_kafka"]["kafka.sasl.password"] == "${KAFKA_PASSWORD}"
        store = component.project.project.catalog.store("prod_kafka")
        assert store.properties["uris"].shown() == "other:9092"


@pytest.mark.parametrize(
    ("resources", "condition"),
    [
        ({"prod_kafka": {"uris": "x:1", "pasword": "${P}"}}, "RESOURCE_UNKNOWN_FIELD"),
        ({"prod_kafka": {"password": "in the clear"}}, "RESOURCE_LITERAL_SECRET"),
        ({"prod_kafak": {"uris": "x:1"}}, "RESOURCE_UNKNOWN_STORE"),
    ],
)
def test_values_that_fit_no_store_are_refused(resources: dict[str, dict[str, str]], condition: str) -> None:
    with pytest.raises(Exception, match="Error while loading component") as caught:
        load(DsProjectComponent, resources=resources)
    told = "".join(traceback.format_exception(caught.value))
    assert condition in told
    assert "in the clear" not in told


def test_scaffolding_gives_a_project_that_loads() -> None:
    pytest.importorskip("ds_dagster.local.template")
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=DsProjectComponent)
        assert (path / "defs.yaml").is_file()
        assert list(Path(path / "streams" / "sql").glob("*.sql"))
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, definitions):
            assert isinstance(component, DsProjectComponent)
            assert component.project.project.errors == ()
            assert list(definitions.resolve_all_asset_specs())


def test_dagsters_tools_find_it() -> None:
    from dagster.components.core.package_entry import discover_entry_point_package_objects

    found = [key for key in discover_entry_point_package_objects() if key.namespace.startswith("ds_dagster")]
    assert [key.name for key in found] == ["DsProjectComponent"]


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"health_sensor": "perhaps"}, "'perhaps' is neither true nor false"),
        ({"engine_asset": "{{ 'no' }}"}, "'no' is neither true nor false"),
        ({"op": {"retries": {"max_retries": -1}}}, "greater than or equal to 0"),
    ],
)
def test_values_that_mean_nothing_are_refused(attributes: dict[str, Any], why: str) -> None:
    with pytest.raises(Exception) as refused:
        load(DsProjectComponent, **attributes)
    assert why in "".join(traceback.format_exception(refused.value))
