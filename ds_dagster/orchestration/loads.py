"""Assets of finite loads (CREATE TABLE … AS with refresh.mode incremental or full): each materialization loads, reports
its rows and ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from pydantic import Field

from ds_dagster.errors import DsError
from ds_dagster.names import safe_name
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import failure_of, failure_text, finite_metadata, interruption_of
from ds_dagster.orchestration.launch import ResetConfig
from ds_dagster.orchestration.partitions import backfill_of, check_action, is_of_partitions, recomputed
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.resources import CONTROL_KEY, PYSPARK_KEY, control_resource
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.backfill import Backfill
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import FiniteResult

RETRIES = dg.RetryPolicy(max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""Only transient failures are retried (a server that does not answer)."""


class DsLoadConfig(ResetConfig):
    """How one load runs.

    ``action``: ``ensure`` loads the rows since the last load (or all, by refresh.mode); ``reset`` starts over with a
    new checkpoint.
    ``allow_duplicates``, ``empty``: a reset may write rows that the table already has, or that its row logs have.
    ``catch_up_seconds``: how long to wait until the queries it reads from have processed all present input.
    ``with_late_rows``: for a run of partitions, windows count the records that came after they closed.
    ``rate``: for a run of partitions, the most records per second to read again; null for no limit.
    ``timeout_seconds``: how long to wait for the end of the load; after that, the load continues in the engine.
    ``cancel_on_termination``: a terminated run ends its load; false lets the load continue in the engine. A load in
    the step always ends with the step.
    """

    action: Literal["ensure", "reset"] = "ensure"
    cancel_on_termination: bool = True
    catch_up_seconds: int = 60
    with_late_rows: bool = False
    rate: int | None = None
    timeout_seconds: int = 3600


class RetriesModel(dg.Model):
    """A retry policy in YAML: ``retries: {max_retries: 5, delay: 30}``; the delay (seconds) grows exponentially, with
    jitter."""

    max_retries: int = Field(RETRIES.max_retries, ge=0)
    delay: float = Field(5, ge=0)


def _resolve_retries(_: Any, model: RetriesModel) -> dg.RetryPolicy:
    return RETRIES._replace(max_retries=model.max_retries, delay=model.delay)


@dataclass(frozen=True, slots=True)
class OpOptions(dg.Resolvable):
    """Options of the steps that start queries and load tables; in YAML ``op: {pool: …, tags: {…}, retries: {…}}``.

    Attributes:
        pool: Dagster's pool, which limits how many run at once.
        tags: of the ops, for run coordinators and executors.
        retries: of loads after transient failures, twice by default; the engine itself retries queries.
    """

    pool: str | None = None
    tags: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    retries: Annotated[dg.RetryPolicy, dg.Resolver(_resolve_retries, model_field_type=RetriesModel)] = RETRIES


PLAIN_OPS = OpOptions()


def load_name(spec: dg.AssetSpec) -> str:
    """The usual name of the op that loads a table."""
    return safe_name("load_" + "_".join(spec.key.path))


def build_load(
    project: DsProject, props: RelationProps, spec: dg.AssetSpec, op: OpOptions, name: str
) -> dg.AssetsDefinition:
    """The asset of one table; ``name``: of its op. With ``'execution'='step'`` it runs in the step's own Spark session
    (resource ``pyspark``), else in the engine."""
    in_step = any(query.execution == "step" for query in props.queries)
    keys = {project.named(key) for key in ((CONTROL_KEY, PYSPARK_KEY) if in_step else (CONTROL_KEY,))}

    @dg.multi_asset(
        name=name,
        specs=[spec],
        required_resource_keys=keys,
        retry_policy=op.retries,
        pool=op.pool,
        backfill_policy=None if spec.partitions_def is None else dg.BackfillPolicy.single_run(),
        op_tags={**op.tags, "ds/query": ",".join(query.name for query in props.queries)},
    )
    def load(context: dg.AssetExecutionContext, config: DsLoadConfig) -> dg.MaterializeResult[Any]:
        """Load the rows since the last materialization (or everything, by refresh.mode), and end. A run of partitions
        then computes their range of time again."""
        ds_control = control_resource(context, project)
        results: list[FiniteResult] = []
        metadata: dict[str, Any] = {}
        try:
            if is_of_partitions(context):
                check_action(config.action, props)
            control = ds_control.control(project)
            run = _LoadRun(context, control, project, config, f"{ds_control.requested_by} run {context.run.run_id}")
            for query in props.queries:
                results.append(_in_step(run, query) if query.execution == "step" else _in_engine(run, query))
            if is_of_partitions(context) and all(result.state == "FINISHED" for result in results):
                metadata = recomputed(context, _backfill(run, props))
        except DsError as problem:
            raise failure_of(problem) from problem
        except DagsterExecutionInterruptedError as interrupted:
            raise interruption_of(context, interrupted) from None
        metadata |= finite_metadata(results, props.queries)
        failed = [result for result in results if result.state != "FINISHED"]
        if failed:
            raise dg.Failure("\n".join(map(failure_text, failed)), metadata=metadata, allow_retries=False)
        return dg.MaterializeResult(metadata=metadata)

    return load


@dataclass(frozen=True, slots=True)
class _LoadRun:
    """One materialization: Dagster's context, where it requests the load, its config, and the requester."""

    context: dg.AssetExecutionContext
    control: Control
    project: DsProject
    config: DsLoadConfig
    requested_by: str


def _backfill(run: _LoadRun, props: RelationProps) -> Backfill:
    """The backfill of a run of partitions; in the step's own session if the load runs there."""
    query = props.queries[0]
    return backfill_of(
        run.context,
        props,
        query,
        project=run.project.project,
        control=run.control,
        requested_by=run.requested_by,
        rate=run.config.rate,
        has_late=run.config.with_late_rows,
        session=_session(run) if query.execution == "step" else None,
    )


def _session(run: _LoadRun) -> Any:
    return getattr(run.context.resources, run.project.named(PYSPARK_KEY)).spark_session


def _in_engine(run: _LoadRun, query: BoundQuery) -> FiniteResult:
    control, config = run.control, run.config
    control.ensure_engine(pool=query.pool)
    request = control.request_run(
        run.project.project,
        query.name,
        run.requested_by,
        action=config.action,
        allow=config.consents(),
        catch_up=config.catch_up_seconds,
    )
    run.context.log.info(f"{query.name}: requested a load from the engine (request {request})")
    try:
        control.ensure_engine(pool=query.pool)  # the engine of a pool ends when its pool is empty
        return control.wait_run(request, config.timeout_seconds)
    except DagsterExecutionInterruptedError:
        if config.cancel_on_termination:
            control.withdraw_run(request)
        raise


def _in_step(run: _LoadRun, query: BoundQuery) -> FiniteResult:
    run.context.log.info(f"{query.name}: loads in this step's Spark session")
    return run.control.run_in_session(
        run.project.project,
        query.name,
        _session(run),
        run.requested_by,
        action=run.config.action,
        allow=run.config.consents(),
        catch_up=run.config.catch_up_seconds,
    )
