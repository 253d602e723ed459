"""A project as one translator shows it: computed once, read by assets, checks and the sensor."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import dagster as dg

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator, asset_keys_must_differ
from ds_dagster.project.load import BrokenRelation
from ds_dagster.sql.annotations import without_wrong_tags, wrong_tags


@dataclass(frozen=True, slots=True)
class Surface:
    """What is shown of a project.

    Attributes:
        shown: relations in the order of files; those the translator refuses (an owner that is none) say why.
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
    _, surface = project.surfaces.get(id(translator), (None, None))
    if not isinstance(surface, Surface):
        surface = _surface(project, translator)
        project.surfaces[id(translator)] = (translator, surface)
    return surface


def _surface(project: DsProject, translator: DsTranslator) -> Surface:
    asset_keys_must_differ(translator, project.props)
    specs: dict[QualifiedName, dg.AssetSpec] = {}
    shown: dict[QualifiedName, RelationProps] = {}
    refusals: list[Diagnostic] = []
    for props in project.props:
        try:
            specs[props.name], shown[props.name] = translator.get_asset_spec(props), props
        except DsError as problem:
            refused = without_refused(props, problem)
            refusals += refused.mistakes
            specs[props.name], shown[props.name] = translator.get_asset_spec(refused), refused
    if refusals and project.is_strict:
        raise ProjectError(refusals)
    streams = (shown[props.name] for props in project.streams)
    return Surface(tuple(shown.values()), tuple(props for props in streams if props.is_stream), specs)


def without_refused(props: RelationProps, problem: DsError) -> RelationProps:
    """A relation the translator refuses: without the tags that mean nothing; without its statement where they are not
    the reason."""
    relation = props.relation
    assert relation is not None
    comment = relation.comment
    wrong = tuple(error(tag.condition, span=relation.span, **tag.params).diagnostic() for tag in wrong_tags(comment))
    if problem.condition in {diagnostic.condition for diagnostic in wrong}:
        right = replace(relation, origin=replace(relation.origin, comment=without_wrong_tags(comment)))
        return replace(props, relation=right, wrong_tags=wrong)
    refused = BrokenRelation(props.name, props.kind, relation.span, (problem.diagnostic(),), props.text)
    return replace(props, relation=None, queries=(), broken=refused)
