"""The YAML face: a component that turns a folder of streaming SQL into definitions, and its scaffolder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import dagster as dg
from dagster.components.resolved.context import ResolutionContext

from ds_dagster.local.template import write_project
from ds_dagster.orchestration.definitions import build_ds_definitions
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator


def _resolve_project(context: ResolutionContext, value: str) -> DsProject:
    return DsProject(context.resolve_source_relative_path(value))


class DsProjectScaffolder(dg.Scaffolder):
    """Writes ``defs.yaml`` and, beside it, a small project to start from."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Called by ``dg scaffold defs``."""
        target = Path(request.target_path) / "streams"
        write_project(target, with_dagster=False)
        dg.scaffold_component(request, {"project": "streams"})


@dg.scaffold_with(DsProjectScaffolder)
@dataclass
class DsProjectComponent(dg.Component, dg.Resolvable):
    """Compile a folder of streaming SQL into assets, checks and a health sensor.

    ``project``: the folder, relative to the YAML file. Override :meth:`get_asset_spec` to change the mapping.
    """

    project: Annotated[DsProject, dg.Resolver(_resolve_project, model_field_type=str)]
    health_sensor: bool = True

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        """Override point: the spec of one relation."""
        return DsTranslator().get_asset_spec(props)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Called by Dagster."""
        return build_ds_definitions(
            self.project, translator=_ComponentTranslator(self), health_sensor=self.health_sensor
        )


class _ComponentTranslator(DsTranslator):
    """Sends specs through the component's override; keys follow it, so that lineage and checks agree."""

    def __init__(self, component: DsProjectComponent) -> None:
        self._component = component

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        return self._component.get_asset_spec(props)
