"""Assets: a multi-asset for long-lived queries and one per application, an op per finite load, an observable
multi-asset for sources, failing assets for refused statements."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any, Literal

import dagster as dg
from dagster._core.definitions.data_version import CODE_VERSION_TAG
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.storage.tags import AUTOMATION_CONDITION_TAG

from ds_dagster.errors import DsError, error
from ds_dagster.names import QualifiedName, did_you_mean, safe_name
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import failure_of, interruption_of
from ds_dagster.orchestration.launch import ActionConfig, ComparedVersion, Launch, LaunchedRelation
from ds_dagster.orchestration.loads import PLAIN_OPS, OpOptions, build_load, load_name
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.refused import failing_asset, refused_name
from ds_dagster.orchestration.resources import CONTROL_KEY, DsControlResource, control_resource
from ds_dagster.orchestration.sources import build_ds_sources, observable, observe_first
from ds_dagster.orchestration.surface import Surface, check_whole_applications, mapper_of, selected_names, surface_of
from ds_dagster.orchestration.translator import DsTranslator

ASSETS_NAME = "ds_streams"
APPLICATION_NAME = "ds_application"
WITHOUT_EVENT: Mapping[str, Any] = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Metadata of an output for which Dagster writes no event on the asset; a test checks that Dagster still does so."""

MAX_RUNTIME = {"dagster/max_runtime": "900"}
StreamEvents = Iterator[dg.MaterializeResult[Any] | dg.Output[None] | dg.AssetObservation]


class DsRunConfig(ActionConfig):
    """What a materialization does. Shift-click *Materialize* to choose.

    ``ensure`` starts queries that do not run and adopts those that run; ``restart`` stops and starts with the same
    checkpoint; ``reset`` starts over with a new checkpoint; ``new_version`` builds a changed view next to the version
    that serves, records the difference of their rows, and waits until the new version takes over; it is ``ensure`` for
    all others; ``stop`` stops until the next materialization. A new version that ``ds promote`` would refuse without
    ``--yes`` stays staged, and fails the run, without ``allow_differences``. A reset that would write rows a sink
    already has is refused without ``allow_duplicates``, ``from_now`` or ``empty``. ``allow_partial``: a restart may
    keep the state although results of an aggregate are added, see
    :class:`~ds_dagster.orchestration.launch.ActionConfig`. ``cancel_on_termination``: by
    default (null) a terminated run withdraws requests that have not led to a running query; true also stops the queries
    it has started; false leaves every request.
    ``start_timeout_seconds``: how long to wait for the queries; null takes the value of the resource ``ds_control``.
    """

    action: Literal["ensure", "restart", "new_version", "stop", "reset"] = "ensure"
    allow_differences: bool = False
    cancel_on_termination: bool | None = None
    start_timeout_seconds: int | None = None


Execute = Callable[[dg.AssetExecutionContext, DsRunConfig, DsControlResource], StreamEvents]
"""The body of the steps that start queries."""


def ds_assets(
    *,
    project: DsProject,
    translator: DsTranslator | None = None,
    select: str | Collection[QualifiedName] | None = None,
    exclude: str = "",
    name: str | None = None,
    can_subset: bool = True,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
    required_resource_keys: Set[str] = frozenset(),
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Decorator: one subsettable multi-asset over the project's long-lived queries.

    .. code-block:: python

        @ds_assets(project=project)
        def streams(context: dg.AssetExecutionContext, config: DsRunConfig, ds_control: DsControlResource):
            yield from ensure_streams(context, project, config, ds_control)

    Args:
        project: the project.
        translator: how relations map to assets; pass the same object to :func:`ensure_streams`.
        select: an asset selection of Dagster (``group:web``, ``kind:kafka``, ``key:"shop/public/*"``, ``+key:"…"+``
            with everything upstream and downstream), or names of relations; all by default.
        exclude: an asset selection whose queries are left out.
        can_subset: whether some assets can be materialized without the others.
        name, pool, retry_policy, op_tags, required_resource_keys: of the op; the name is ``ds_streams`` by default.

    Raises:
        UserError: SELECTION_INVALID, SELECTION_EMPTY, SELECTION_SPLITS_APPLICATION, UNKNOWN_RELATION,
            KEY_PREFIX_NOT_USED, ASSET_KEY_COLLISION.
    """
    mapper = mapper_of(project, translator)
    surface = surface_of(project, mapper)
    chosen = _chosen(project, surface, "" if select is None else select, exclude)
    return dg.multi_asset(
        name=name or project.named(ASSETS_NAME),
        specs=[surface.specs[props.name] for props in chosen],
        can_subset=can_subset,
        pool=pool,
        retry_policy=retry_policy,
        op_tags={**MAX_RUNTIME, **(op_tags or {})},
        required_resource_keys=set(required_resource_keys),
    )


def _chosen(
    project: DsProject, surface: Surface, select: str | Collection[QualifiedName], exclude: str
) -> list[RelationProps]:
    """The selected relations that long-lived queries fill, sources first."""
    names = selected_names(project, surface.specs, select if isinstance(select, str) else "", exclude)
    if not isinstance(select, str):
        for name in select:
            if name not in surface.specs:
                nearest = did_you_mean(str(name), map(str, surface.specs))
                raise error("UNKNOWN_RELATION", name=str(name), nearest=nearest)
        names &= frozenset(select)
        check_whole_applications(surface.streams, names)
    chosen = [props for props in surface.streams if props.name in names]
    if surface.streams and not chosen:
        shown = select if isinstance(select, str) else ", ".join(map(str, select))
        raise error("SELECTION_EMPTY", select=shown or "all", exclude=exclude or "none")
    return chosen


def ensure_streams(
    context: dg.AssetExecutionContext,
    project: DsProject,
    config: DsRunConfig,
    ds_control: DsControlResource,
    translator: DsTranslator | None = None,
    *,
    observe_sources: bool = True,
) -> StreamEvents:
    """Make sure that the queries of the selected assets run (or do what ``config.action`` says), and return.

    Yields a materialization for each relation that was started, or that was adopted while Dagster has no
    materialization of this definition. Other adopted relations and stopped ones have no new data: they yield a plain
    output, so that downstream assets proceed, and no event that would make them look fresh. If the run is terminated
    before its queries are up, requests that have not led to a running query are withdrawn, unless
    ``config.cancel_on_termination`` says otherwise. Before a new version takes over, yields an observation with the
    difference of its rows.

    Args:
        context, project, config, ds_control: as the asset has them.
        translator: of the assets; by default the one that the project's assets were built with.
        observe_sources: before the first result, look at the sources that were never observed, so that every
            materialization has their data version.

    Raises:
        dg.Failure: UNKNOWN_RELATION for an asset that the translator does not know; at the end, with every query that
            was refused, failed or did not come up in time.
    """
    mapper = _mapper_of_run(context, project, translator)
    by_key = {mapper.get_asset_key(props.name): props for props in project.streams}
    selected = {key: props for key, props in by_key.items() if key in context.selected_asset_keys}
    timeout = config.start_timeout_seconds or ds_control.start_timeout_seconds
    try:
        for key in context.selected_asset_keys - selected.keys():
            path = key.to_user_string()
            raise error(
                "UNKNOWN_RELATION", name=path, nearest=did_you_mean(path, map(dg.AssetKey.to_user_string, by_key))
            )
        launch = Launch(
            control=ds_control.control(project),
            project=project.project,
            requested_by=f"{ds_control.requested_by} run {context.run.run_id}",
            log=context.log.info,
            is_automatic=AUTOMATION_CONDITION_TAG in context.run.tags,
            may_differ=config.allow_differences,
        )
        looks = observe_sources and config.action != "stop"
        for key, outcome in _interruptible(launch, selected, config, timeout):
            if isinstance(outcome, ComparedVersion):
                yield dg.AssetObservation(key, metadata=outcome.metadata)
                continue
            if looks:  # not earlier: a launch may have created the entity that a query reads
                observe_first(context, project, mapper, selected.values())
            looks = False
            yield _result(context, key, outcome)
    except DsError as problem:
        raise failure_of(problem) from problem
    except DagsterExecutionInterruptedError as interrupted:
        raise interruption_of(context, interrupted) from None
    failure = launch.failure()
    if failure is not None:
        raise failure


def _mapper_of_run(
    context: dg.AssetExecutionContext, project: DsProject, translator: DsTranslator | None
) -> DsTranslator:
    """The given translator, or the one whose assets run."""
    if translator is None:
        for mapper, surface in project.surfaces.values():
            keys = {spec.key for spec in surface.specs.values()} if isinstance(surface, Surface) else frozenset()
            if isinstance(mapper, DsTranslator) and context.selected_asset_keys <= keys:
                return mapper
    return mapper_of(project, translator)


def _result(
    context: dg.AssetExecutionContext, key: dg.AssetKey, outcome: LaunchedRelation
) -> dg.MaterializeResult[Any] | dg.Output[None]:
    """A materialization if a query was started, or runs and Dagster knows none of this definition; else a plain output
    without an event."""
    if outcome.is_new or (outcome.is_up and not _is_known(context, key)):
        return dg.MaterializeResult(asset_key=key, metadata=outcome.metadata)
    context.log_event(dg.AssetObservation(key, metadata=outcome.metadata))
    return dg.Output(None, context.assets_def.get_output_name_for_asset_key(key), metadata=WITHOUT_EVENT)


def _is_known(context: dg.AssetExecutionContext, key: dg.AssetKey) -> bool:
    """Whether the last materialization in Dagster's log is of the definition that runs, by the code version of the
    asset: a translator may have replaced the relation's."""
    last = context.instance.get_latest_materialization_event(key)
    materialization = last.asset_materialization if last else None
    version = context.assets_def.specs_by_key[key].code_version
    return materialization is not None and (materialization.tags or {}).get(CODE_VERSION_TAG) == version


def _interruptible(
    launch: Launch, selected: Mapping[dg.AssetKey, RelationProps], config: DsRunConfig, timeout: float
) -> Iterator[Any]:
    try:
        yield from launch.run(selected, config.action, timeout, config.consents())
    except DagsterExecutionInterruptedError:
        if config.cancel_on_termination is not False:
            launch.withdraw(stop=config.cancel_on_termination is True)
        raise


def build_ds_assets(
    project: DsProject,
    translator: DsTranslator | None = None,
    *,
    observe_sources: bool = True,
    op: OpOptions = PLAIN_OPS,
    execute: Execute | None = None,
) -> list[Any]:
    """All assets of a project: a multi-asset for long-lived queries and one per application, an op per finite load,
    failing assets for refused statements, one observable multi-asset for sources (relations that no query fills).
    Declared relations that queries write to as well (late rows) are assets without an op: the sensor observes them.

    Args:
        project, translator: as in :func:`ds_assets`.
        observe_sources: as in :func:`ensure_streams`.
        op: pool, tags and retries of the ops.
        execute: body of the steps that start queries; :func:`ensure_streams` by default.

    Raises:
        UserError: KEY_PREFIX_NOT_USED, ASSET_KEY_COLLISION, SELECTION_….
        ProjectError: the project is strict and has mistakes.
    """
    mapper = mapper_of(project, translator)
    surface = surface_of(project, mapper)
    applications = dict.fromkeys(props.application for props in surface.streams)
    body = execute or _ensuring(project, mapper, observe_sources)
    built: list[Any] = [_streams(project, mapper, name, body, op) for name in applications]
    ops: set[str] = set()
    for props in surface.shown:
        spec = surface.specs[props.name]
        if props.is_finite and props.broken is None:
            built.append(build_load(project, props, spec, op, _unused(load_name(spec), ops)))
        elif not props.is_stream and props.broken is not None:
            built.append(failing_asset(spec, props.broken.diagnostics, _unused(refused_name(spec), ops)))
    sources = [props for props in surface.shown if observable(props)]
    outside = [props for props in sources if not props.depends_on]
    if outside:
        built.append(build_ds_sources(project, outside, [surface.specs[props.name] for props in outside]))
    # a query that reads such a relation may share an op with the query that fills it: an op between would make a cycle
    built.extend(surface.specs[props.name] for props in sources if props.depends_on)
    keys: set[str] = set()
    for file in project.broken_files:  # a/b.sql and a_b.sql have the same safe name
        spec = mapper.get_file_spec(file)
        *folders, name = spec.key.path
        spec = spec.replace_attributes(key=[*folders, _unused(name, keys)])
        built.append(failing_asset(spec, file.diagnostics, _unused(refused_name(spec), ops)))
    return built


def _unused(name: str, taken: set[str]) -> str:
    """The name, or with a number if it is taken; it is taken from now on. Safe names of different names may be equal,
    and Dagster loads nothing when two ops or assets have the same name."""
    numbers = itertools.count(2)
    unused = name
    while unused in taken:
        unused = f"{name}_{next(numbers)}"
    taken.add(unused)
    return unused


def _ensuring(project: DsProject, translator: DsTranslator, observe_sources: bool) -> Execute:
    def execute(context: dg.AssetExecutionContext, config: DsRunConfig, ds_control: DsControlResource) -> StreamEvents:
        return ensure_streams(context, project, config, ds_control, translator, observe_sources=observe_sources)

    return execute


def _streams(
    project: DsProject, translator: DsTranslator, application: str, execute: Execute, op: OpOptions
) -> dg.AssetsDefinition:
    """The op of all queries outside applications, or of one application, which cannot be subset."""
    streams = surface_of(project, translator).streams
    chosen = [props.name for props in streams if props.application == application]
    name = f"{APPLICATION_NAME}_{safe_name(application)}" if application else ASSETS_NAME

    @ds_assets(
        project=project,
        translator=translator,
        select=chosen,
        name=project.named(name),
        can_subset=not application,
        pool=op.pool,
        op_tags=op.tags,
        required_resource_keys={project.named(CONTROL_KEY)},
    )
    def ds_streams(context: dg.AssetExecutionContext, config: DsRunConfig) -> StreamEvents:
        """Make sure that the streaming queries run with today's definition."""
        yield from execute(context, config, control_resource(context, project))

    return ds_streams
