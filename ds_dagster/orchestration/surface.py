"""A project as one translator shows it: computed once, read by assets, checks and the sensor."""

import warnings
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.refused import without_refused
from ds_dagster.orchestration.spec_keys import SpecKeys, TranslatorKeys
from ds_dagster.orchestration.translator import DsTranslator, asset_keys_must_differ


@dataclass(frozen=True, slots=True)
class Surface:
    """The relations of a project that are shown.

    Attributes:
        shown: relations in the order of files; a relation that the translator refuses (an invalid owner) has the
            reason in its ``mistakes``.
        streams: shown relations that long-lived queries fill, sources first.
        specs: by relation, of all relations.
    """

    shown: tuple[RelationProps, ...]
    streams: tuple[RelationProps, ...]
    specs: Mapping[QualifiedName, dg.AssetSpec]


def mapper_of(project: DsProject, translator: DsTranslator | None) -> DsTranslator:
    """The translator of a project: the given one, or the default with the project's key prefix. If the given one
    changes keys in ``get_asset_spec`` alone, a translator that follows the keys of its specs.

    Raises:
        UserError: KEY_PREFIX_NOT_USED.
    """
    if translator is None:
        return DsTranslator(project.key_prefix)
    if translator.key_prefix != project.key_prefix:
        raise error("KEY_PREFIX_NOT_USED", prefix="/".join(project.key_prefix), translator=type(translator).__name__)
    if isinstance(translator, SpecKeys) or type(translator).get_asset_spec is DsTranslator.get_asset_spec:
        return translator
    _, mapper = project.mappers.get(id(translator), (None, None))
    if not isinstance(mapper, DsTranslator):
        followed = TranslatorKeys(translator, project.props)
        mapper = followed if followed.is_needed else translator
        project.mappers[id(translator)] = (translator, mapper)
    return mapper


def surface_of(project: DsProject, translator: DsTranslator) -> Surface:
    """The surface, cached in the project per translator.

    Raises:
        UserError: ASSET_KEY_COLLISION, SELECTION_INVALID, SELECTION_EMPTY, SELECTION_SPLITS_APPLICATION.
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
    names = selected_names(project, specs, project.select, project.exclude)
    streams = (shown[props.name] for props in project.streams if props.name in names)
    return Surface(
        tuple(props for props in shown.values() if props.name in names),
        tuple(props for props in streams if props.is_stream),
        specs,
    )


def selected_names(
    project: DsProject, specs: Mapping[QualifiedName, dg.AssetSpec], select: str, exclude: str
) -> Set[QualifiedName]:
    """The relations that match ``select`` (empty: all) and do not match ``exclude`` (empty: none), both asset
    selections of Dagster.

    Raises:
        UserError: SELECTION_INVALID, SELECTION_EMPTY, SELECTION_SPLITS_APPLICATION.
    """
    if not select and not exclude:
        return specs.keys()
    graph = _graph(specs.values())
    keys = _resolved(select, graph) if select else {spec.key for spec in specs.values()}
    keys -= _resolved(exclude, graph) if exclude else set()
    names = {name for name, spec in specs.items() if spec.key in keys}
    if not names:
        raise error("SELECTION_EMPTY", select=select or "all", exclude=exclude or "none")
    check_whole_applications(project.streams, names)
    return names


def _graph(specs: Collection[dg.AssetSpec]) -> BaseAssetGraph[Any]:
    """The assets as materializable ones: Dagster's ``+x`` leaves out all others."""
    plain = [spec.replace_attributes(partitions_def=None) if spec.partitions_def else spec for spec in specs]

    @dg.multi_asset(specs=plain, can_subset=True)
    def selectable() -> Iterator[Any]:
        yield from ()

    return dg.Definitions(assets=[selectable]).resolve_asset_graph()


def _resolved(selection: str, graph: BaseAssetGraph[Any]) -> set[dg.AssetKey]:
    try:
        with warnings.catch_warnings():  # Dagster's parser passes a parameter that Dagster marks as beta
            warnings.filterwarnings("ignore", message=".*`include_sources`")
            return set(dg.AssetSelection.from_string(selection).resolve(graph))
    except dg.DagsterError as problem:
        raise error("SELECTION_INVALID", selection=selection, reason=str(problem).splitlines()[0]) from problem
    except NotImplementedError as problem:  # status:, column:, code_location: … are filters of Dagster's UI
        reason = "it filters by what is not known when definitions load"
        raise error("SELECTION_INVALID", selection=selection, reason=reason) from problem


def check_whole_applications(streams: Collection[RelationProps], names: Collection[QualifiedName]) -> None:
    """An application is one job: it is shown whole or not at all.

    Raises:
        UserError: SELECTION_SPLITS_APPLICATION.
    """
    for name in dict.fromkeys(props.application for props in streams if props.application):
        members = [props.name for props in streams if props.application == name]
        missing = [str(member) for member in members if member not in names]
        if 0 < len(missing) < len(members):
            raise error("SELECTION_SPLITS_APPLICATION", application=name, missing=missing)


def build_ds_asset_specs(project: DsProject, translator: DsTranslator | None = None) -> list[dg.AssetSpec]:
    """Only the specs of a project's relations, for a code location that shows or depends on them and runs nothing.

    Raises:
        UserError: KEY_PREFIX_NOT_USED, ASSET_KEY_COLLISION, SELECTION_….
        ProjectError: the project is strict and has mistakes.
    """
    surface = surface_of(project, mapper_of(project, translator))
    return [surface.specs[props.name] for props in surface.shown]
