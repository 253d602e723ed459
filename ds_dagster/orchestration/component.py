"""The YAML interface: a component that turns a folder of streaming SQL into definitions, and its scaffolder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

import dagster as dg
from dagster.components.resolved.context import ResolutionContext
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

from ds_dagster.errors import error
from ds_dagster.orchestration.assets import DsRunConfig, StreamEvents, ensure_streams
from ds_dagster.orchestration.definitions import build_ds_definitions
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.loads import PLAIN_OPS, OpOptions
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.resources import DsControlResource
from ds_dagster.orchestration.spec_keys import SpecKeys
from ds_dagster.orchestration.store_resource import StoreResource
from ds_dagster.orchestration.store_resources import resources_of, store_values
from ds_dagster.orchestration.translator import DsTranslator


def _resolve_project(context: ResolutionContext, value: str) -> DsProject:
    return DsProject(context.resolve_source_relative_path(value))


class DsProjectScaffolder(dg.Scaffolder):
    """Writes ``defs.yaml`` and, next to it, a small project to start from."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Called by ``dg scaffold defs``."""
        from ds_dagster.local.template import write_project

        target = Path(request.target_path)
        write_project(target / "streams", with_dagster=False)
        dg.scaffold_component(request, {"project": "streams", "name": target.name, "key_prefix": target.name})


@dg.scaffold_with(DsProjectScaffolder)
@dataclass
class DsProjectComponent(dg.Component, dg.Resolvable):
    """Compile a folder of streaming SQL into assets, checks and a health sensor.

    Attributes:
        project: the folder, relative to the YAML file.
        name: tells apart several projects in one code location, see :class:`DsProject`.
        key_prefix: parts before the asset keys, with slashes.
        select, exclude: the relations to show, as asset selections, see :class:`DsProject`.
        op: ``pool``, ``tags`` and ``retries`` of the steps that start queries and load tables.
        health_sensor: whether to build the health sensor.
        engine_asset: whether to show the engine as an asset.
        resources: store → field of its resource → value that replaces the value in CREATE STORE, for the queries in
            the engine as well; ``${NAME}`` is an environment variable, and a secret must be one.
        translation: changes of the assets' attributes; ``{{ relation }}`` is the relation (:class:`RelationProps`).

    Override :meth:`get_asset_spec` to change the mapping in Python, :meth:`execute` to do something before or after
    queries start.

    Raises:
        UserError: SETTING_INVALID, RESOURCE_UNKNOWN_STORE, RESOURCE_UNKNOWN_FIELD, RESOURCE_LITERAL_SECRET, and the
            errors of :func:`build_ds_definitions`.
    """

    project: Annotated[DsProject, dg.Resolver(_resolve_project, model_field_type=str)]
    name: str = ""
    key_prefix: str = ""
    select: str = ""
    exclude: str = ""
    op: OpOptions = PLAIN_OPS
    health_sensor: bool = True
    engine_asset: bool = True
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    translation: (
        Annotated[
            TranslationFn[RelationProps],
            TranslationFnResolver(template_vars_for_translation_fn=lambda relation: {"relation": relation}),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        for switch in ("health_sensor", "engine_asset"):
            value = getattr(self, switch)
            if not isinstance(value, bool):  # Dagster passes on the text of a template
                reason = f"{value!r} is neither true nor false"
                raise error(
                    "SETTING_INVALID", name=switch, file="the component's YAML", reason=reason, allowed="true, false"
                )
        if self.name or self.key_prefix:
            self.project = self.project.renamed(self.name, self.key_prefix)
        if self.select or self.exclude:
            self.project = self.project.narrowed(self.select, self.exclude)
        if self.resources:
            self.project = self.project.with_store_values(store_values(self.store_resources))

    @cached_property
    def store_resources(self) -> Mapping[str, StoreResource]:
        """Resources that replace values of stores, by store."""
        return resources_of(self.project, self.resources)

    @cached_property
    def translator(self) -> "ComponentTranslator":
        """Takes specs and keys from :meth:`get_asset_spec`."""
        return ComponentTranslator(self)

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        """Override point: the spec of one relation."""
        spec = DsTranslator(self.project.key_prefix).get_asset_spec(props)
        return self.translation(spec, props) if self.translation else spec

    def execute(
        self, context: dg.AssetExecutionContext, config: DsRunConfig, ds_control: DsControlResource
    ) -> StreamEvents:
        """Override point: the body of a step that starts queries. An override must yield the results of this method."""
        yield from ensure_streams(context, self.project, config, ds_control, self.translator)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002, Dagster's interface
        """Called by Dagster."""
        return build_ds_definitions(
            self.project,
            translator=self.translator,
            resources=self.store_resources,
            health_sensor=self.health_sensor,
            engine_asset=self.engine_asset,
            op=self.op,
            execute=self.execute,
        )


class ComponentTranslator(SpecKeys):
    """Takes specs from the component. Keys follow the specs, so that dependencies, checks and lineage agree."""

    def __init__(self, component: DsProjectComponent) -> None:
        prefix = component.project.key_prefix
        super().__init__(prefix, component.project.props, component.get_asset_spec, DsTranslator(prefix).get_asset_key)
