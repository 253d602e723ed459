"""A project as one translator shows it: computed once, read by assets, checks and the sensor."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import dagster as dg

from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator, asset_keys_must_differ
from ds_dagster.project import BrokenRelation


@dataclass(frozen=True, slots=True)
class Surface:
    """What is shown of a project.

    Attributes:
        shown: relations in the order of files; those the translator refuses (an owner that is none) are broken ones.
        streams: those that long-lived queries fill, sources first.
        specs: by relation.
    """

    shown: tuple[RelationProps, ...]
    streams: tuple[RelationProps, ...]
    specs: Mapping[QualifiedName, dg.AssetSpec]


def mapper_of(project: DsProject, translator: DsTranslator | None) -> DsTranslator:
    """The translator of a project: the given one, or the default with the project's key prefix.

    Raises:
        UserError: KEY_PREFIX_NOT_USED.
    """
    if translator is None:
        return DsTranslator(project.key_prefix)
    if translator.key_prefix != project.key_prefix:
        raise error("KEY_PREFIX_NOT_USED", prefix="/".join(project.key_prefix), translator=type(translator).__name__)
    return translator


def surface_of(project: DsProject, translator: DsTranslator) -> Surface:
    """The surface; kept with the project, so that asking again costs nothing.

    Raises:
        UserError: ASSET_KEY_COLLISION.
        ProjectError: the project is strict, and the SQL has mistakes or the translator refuses a relation.
    """
    _, kept = project.surfaces.get(id(translator), (None, None))
    if not isinstance(kept, Surface):
        kept = _surface(project, translator)
        project.surfaces[id(translator)] = (translator, kept)
    return kept


def _surface(project: DsProject, translator: DsTranslator) -> Surface:
    asset_keys_must_differ(translator, project.props)
    specs: dict[QualifiedName, dg.AssetSpec] = {}
    shown: dict[QualifiedName, RelationProps] = {}
    refusals: list[DsError] = []
    for props in project.props:
        try:
            specs[props.name], shown[props.name] = translator.get_asset_spec(props), props
        except DsError as problem:
            refusals.append(problem)
            shown[props.name] = _broken(props, problem)
            specs[props.name] = translator.get_asset_spec(shown[props.name])
    if refusals and project.is_strict:
        raise ProjectError([problem.diagnostic() for problem in refusals])
    streams = (shown[props.name] for props in project.streams)
    return Surface(tuple(shown.values()), tuple(props for props in streams if props.is_stream), specs)


def _broken(props: RelationProps, problem: DsError) -> RelationProps:
    relation = props.relation
    assert relation is not None
    found = BrokenRelation(props.name, props.kind, relation.span, (problem.diagnostic(),), props.text)
    return replace(props, relation=None, queries=(), broken=found)
