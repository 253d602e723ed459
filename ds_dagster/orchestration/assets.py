"""Assets: one multi-asset for all long-lived queries, an op of its own for each finite load, specs for everything else."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError

from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName, safe_name
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import finite_metadata
from ds_dagster.orchestration.launch import Launch
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.resources import DsControlResource
from ds_dagster.orchestration.translator import DsTranslator, asset_keys_must_differ
from ds_dagster.runtime.control import Control

ASSETS_NAME = "ds_streams"
MAX_RUNTIME = {"dagster/max_runtime": "900"}


class DsRunConfig(dg.Config):
    """What a materialization does. Shift-click *Materialize* to choose.

    ``ensure`` starts what does not run and adopts what does; ``restart`` stops and starts with the checkpoint kept; ``reset``
    starts over from a new checkpoint; ``stop`` stops until the next materialization.
    """

    action: Literal["ensure", "restart", "stop", "reset"] = "ensure"
    start_timeout_seconds: int | None = None


class DsLoadConfig(dg.Config):
    """Of finite loads. ``catch_up_seconds``: how long to wait for upstream queries to process what existed at the start."""

    catch_up_seconds: int = 60
    timeout_seconds: int = 3600


def ds_assets(
    *,
    project: DsProject,
    translator: DsTranslator | None = None,
    select: Sequence[QualifiedName] | None = None,
    name: str = ASSETS_NAME,
    pool: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    op_tags: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Decorator: one subsettable multi-asset over the project's long-lived queries.

    .. code-block:: python

        @ds_assets(project=project)
        def streams(context: dg.AssetExecutionContext, config: DsRunConfig, ds_control: DsControlResource):
            yield from ensure_streams(context, project, config, ds_control)
    """
    mapper = translator or DsTranslator()
    chosen = [props for props in stream_props(project) if select is None or props.name in select]
    return dg.multi_asset(
        name=name,
        specs=[mapper.get_asset_spec(props) for props in chosen],
        can_subset=True,
        pool=pool,
        retry_policy=retry_policy,
        op_tags={**MAX_RUNTIME, **(op_tags or {})},
    )


def ensure_streams(
    context: dg.AssetExecutionContext,
    project: DsProject,
    config: DsRunConfig,
    ds_control: DsControlResource,
    translator: DsTranslator | None = None,
) -> Iterator[dg.MaterializeResult]:
    """Make sure that the queries of the selected assets run (or what ``config.action`` says), and return.

    Yields one result per relation that came up; raises ``dg.Failure`` at the end for those that did not. Interrupted before the
    handshake, launches that this run asked for are withdrawn.
    """
    mapper = translator or DsTranslator()
    selected = {
        mapper.get_asset_key(props.name): props
        for props in stream_props(project)
        if mapper.get_asset_key(props.name) in context.selected_asset_keys
    }
    launch = Launch(
        control=ds_control.control(project),
        project=project.project,
        requested_by=f"{ds_control.requested_by} run {context.run_id}",
        log=context.log.info,
    )
    timeout = config.start_timeout_seconds or ds_control.start_timeout_seconds
    try:
        for key, outcome in launch.run(selected, config.action, timeout):
            yield dg.MaterializeResult(asset_key=key, metadata=outcome.metadata)
    except DagsterExecutionInterruptedError:
        launch.withdraw()
        raise
    launch.raise_failures()


def stream_props(project: DsProject) -> list[RelationProps]:
    """Relations that long-lived queries fill, sources first."""
    order = {name: index for index, name in enumerate(query.sink.name for query in project.project.queries.values())}
    found = [props for props in project.props if props.is_executable and not props.is_finite]
    return sorted(found, key=lambda props: order[props.name])


def build_ds_assets(project: DsProject, translator: DsTranslator | None = None) -> list[Any]:
    """Everything of a project: the streams' multi-asset, an op per finite load, failing assets for refused statements, external
    specs for relations that others fill."""
    mapper = translator or DsTranslator()
    keys: dict[dg.AssetKey, list[QualifiedName]] = {}
    for props in project.props:
        keys.setdefault(mapper.get_asset_key(props.name), []).append(props.name)
    asset_keys_must_differ(keys)
    built: list[Any] = []
    if stream_props(project):
        built.append(_streams(project, mapper))
    built += [_finite(project, props, mapper) for props in project.props if props.is_finite]
    built += [_refused(props, mapper) for props in project.props if props.broken is not None]
    external = [props for props in project.props if not props.is_executable and props.broken is None]
    built += [mapper.get_asset_spec(props) for props in external]
    return built


def _streams(project: DsProject, translator: DsTranslator) -> dg.AssetsDefinition:
    @ds_assets(project=project, translator=translator)
    def ds_streams(
        context: dg.AssetExecutionContext, config: DsRunConfig, ds_control: DsControlResource
    ) -> Iterator[dg.MaterializeResult]:
        """Make sure that the streaming queries run with today's definition."""
        yield from ensure_streams(context, project, config, ds_control, translator)

    return ds_streams


def _finite(project: DsProject, props: RelationProps, translator: DsTranslator) -> dg.AssetsDefinition:
    query = props.queries[0]
    name = safe_name("load_" + "_".join(translator.get_asset_key(props.name).path))
    needs = {"pyspark"} if query.execution == "step" else set()

    @dg.multi_asset(
        name=name,
        specs=[translator.get_asset_spec(props)],
        required_resource_keys=needs,
        retry_policy=dg.RetryPolicy(max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL),
        op_tags={"ds/query": query.name},
    )
    def load(
        context: dg.AssetExecutionContext, config: DsLoadConfig, ds_control: DsControlResource
    ) -> dg.MaterializeResult:
        """Load what came since the last materialization (or everything, by refresh.mode), and end."""
        control = ds_control.control(project)
        try:
            result = _run_load(context, control, project, query.name, config, ds_control.requested_by)
        except DsError as problem:
            raise dg.Failure(description=str(problem), allow_retries=problem.fault.hint == "back_off") from problem
        if result.state != "FINISHED":
            text = f"{result.message} [{result.condition}]" + (f"\nhint: {result.hint}" if result.hint else "")
            raise dg.Failure(description=text, metadata=finite_metadata(result), allow_retries=False)
        return dg.MaterializeResult(metadata=finite_metadata(result))

    return load


def _run_load(
    context: dg.AssetExecutionContext,
    control: Control,
    project: DsProject,
    name: str,
    config: DsLoadConfig,
    requested_by: str,
) -> Any:
    query = project.project.queries[name]
    if query.execution == "step":
        session = context.resources.pyspark.spark_session
        return control.run_in_session(project.project, name, session, requested_by=f"{requested_by} run {context.run_id}")
    control.ensure_engine()
    request = control.request_run(
        project.project, name, f"{requested_by} run {context.run_id}", catch_up=config.catch_up_seconds
    )
    try:
        return control.wait_run(request, config.timeout_seconds)
    except DagsterExecutionInterruptedError:
        control.withdraw_run(request)
        raise


def _refused(props: RelationProps, translator: DsTranslator) -> dg.AssetsDefinition:
    broken = props.broken
    assert broken is not None
    key = translator.get_asset_key(props.name)
    text = "\n".join(diagnostic.text() for diagnostic in broken.diagnostics)
    first = broken.diagnostics[0].condition if broken.diagnostics else "RELATION_REFUSED"

    @dg.multi_asset(
        name=safe_name("refused_" + "_".join(key.path)),
        specs=[translator.get_asset_spec(props)],
        check_specs=[dg.AssetCheckSpec("compiles", asset=key, description="its statement is valid")],
    )
    def refused(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckResult]:
        """Says what is wrong with the statement."""
        yield dg.AssetCheckResult(passed=False, asset_key=key, check_name="compiles", description=text)
        raise dg.Failure(description=text, metadata={"ds_dagster/condition": first}, allow_retries=False)

    return refused
