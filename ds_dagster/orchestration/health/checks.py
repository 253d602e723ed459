"""Health verdicts of a relation: pure functions over the statuses of its jobs, used by the check body and by the
sensor alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import dagster as dg

from ds_dagster.errors import DsError, error
from ds_dagster.figures import over_queries
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import PREFIX, failure_of, state_metadata, status_metadata
from ds_dagster.orchestration.health.constraints import check_constraint
from ds_dagster.orchestration.health.freshness import FOLLOWED, freshness, moment
from ds_dagster.orchestration.health.verdict import ERROR, WARN, Verdict, check_result
from ds_dagster.orchestration.props import RelationProps, text_of
from ds_dagster.orchestration.resources import CONTROL_KEY, control_resource
from ds_dagster.orchestration.surface import mapper_of, surface_of
from ds_dagster.orchestration.translator import COMPILES, FRESH, DsTranslator, max_lag_seconds
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.status import Change, JobStatus
from ds_dagster.sql.annotations import Freshness
from ds_dagster.sql.thresholds import LIMITED, Threshold

LAG_SECONDS = 300.0
"""Unread input older than this fails ``lag``; ``@max_lag 10m`` in the comment of a relation overrides it."""

PROGRESS_SECONDS = 120.0
START_SECONDS = 300.0
CHECKED_TOGETHER = 100
"""How many relations share an op of checks: Dagster's graph costs the product of an op's inputs and its checks."""

COMING_BACK = frozenset({"BACKING_OFF", "WAITING"})
"""States that the engine leaves by itself."""

ROWS = Freshness(0, "rows")
"""Default for relations without ``@freshness``: follow the last rows."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job as checks see it.

    Attributes:
        status: as the journal has it.
        change: effect of deploying the project's definition, None when the project has no such query.
        now: time of the check, seconds since the epoch.
        lag_limit: seconds.
        freshness: the policy in the relation's comment.
        newest: how new its data is by the figure of the policy, seconds since the epoch, None before there is data.
    """

    status: JobStatus
    change: Change | None
    now: float
    lag_limit: float = LAG_SECONDS
    freshness: Freshness = ROWS
    newest: float | None = None


def check_running(job: Job) -> Verdict:
    """The query runs. A warning while it is stopped on request, while the engine will start it again by itself, or
    while it has been starting for at most five minutes; otherwise an error."""
    status = job.status
    if status.desired == "STOPPED":
        reason = "stopped on request" if status.state == "STOPPED" else f"a stop was requested; it is {status.state}"
        return Verdict(False, reason, WARN, "STOPPED")
    if status.state == "RUNNING":
        return Verdict(True, "running")
    waited = job.now - (status.since or status.started or job.now)
    if status.state == "STARTING":
        severity = WARN if waited <= START_SECONDS else ERROR
        return Verdict(False, f"starting for {waited:.0f} s", severity, f"STARTING_{severity.value}")
    reason = f"{status.state}: {status.message}" if status.message else status.state
    texts = {"condition": status.condition, "hint": status.hint}
    metadata = {f"{PREFIX}/{name}": text for name, text in texts.items() if text}
    comes_back = status.state in COMING_BACK or (status.state == "ABSENT" and not status.condition)
    return Verdict(False, reason, WARN if comes_back else ERROR, f"{status.state} {status.condition}", metadata)


def check_lag(job: Job) -> Verdict:
    """The oldest unread input is not older than the limit; a warning, since backfills lag on purpose."""
    status = job.status
    if status.state != "RUNNING":
        return _not_known(status)
    if status.lag_seconds is None or status.lag_records == 0:
        return Verdict(True, "nothing waits" if status.lag_records == 0 else "lag not known yet", WARN)
    records = "" if status.lag_records is None else f"{status.lag_records} records, "
    reason = f"{records}{status.lag_seconds:.0f} s behind"
    limit = {f"{PREFIX}/limit_seconds": job.lag_limit}
    return Verdict(status.lag_seconds <= job.lag_limit, reason, WARN, "LAG", limit)


def check_progress(job: Job) -> Verdict:
    """While there is input, batches finish within two minutes."""
    status = job.status
    since = max(status.progressed or 0.0, status.started or 0.0)
    if status.state != "RUNNING":
        return _not_known(status)
    if not status.lag_records or not since:
        return Verdict(True, "no input waits")
    idle = job.now - since
    reason = f"last batch with rows {idle:.0f} s ago, {status.lag_records} records wait"
    limit = {f"{PREFIX}/limit_seconds": PROGRESS_SECONDS}
    return Verdict(idle <= PROGRESS_SECONDS, reason, condition="NO_PROGRESS", metadata=limit)


def check_definition_current(job: Job) -> Verdict:
    """The definition in force is the one in the checkout; a warning, since the sensor never deploys."""
    change = job.change
    if change is None or change.verdict in ("new", "unchanged") or job.status.desired == "STOPPED":
        return Verdict(True, "current" if change and change.verdict == "unchanged" else "nothing runs", WARN)
    verb = "restart" if change.verdict == "keeps_checkpoint" else "new_version" if change.beside else "reset"
    reason = f"the SQL file has another definition ({change.rule}): materialize with action {verb}"
    return Verdict(False, reason, WARN, change.verdict, {f"{PREFIX}/verdict": change.verdict})


def check_fresh(job: Job) -> Verdict:
    """The figure that ``@freshness`` follows is new enough; fails while the query does not run."""
    status = job.status
    if status.desired == "STOPPED":
        return Verdict(False, "stopped: no new data comes", WARN, "STOPPED")
    if status.state != "RUNNING":
        return _not_known(status)
    since = status.started if job.newest is None else job.newest
    age = job.now - (job.now if since is None else since)
    words = "no data yet" if job.newest is None else FOLLOWED[job.freshness.source].words.format(age=max(age, 0.0))
    limit = {f"{PREFIX}/limit_seconds": job.freshness.seconds}
    return Verdict(age <= job.freshness.seconds, words, ERROR, "STALE", limit)


def check_threshold(threshold: Threshold, statuses: Sequence[JobStatus]) -> Verdict:
    """The figure of a ``@check`` is within its limit; for a load, the figure of its last run. Fails with a warning
    while the figure is not known or a query does not run."""
    severity = ERROR if threshold.severity == "error" else WARN
    limit = {f"{PREFIX}/limit": threshold.limit}
    down = next((status for status in statuses if status.state not in ("RUNNING", "FINISHED")), None)
    if down is not None:
        return _not_known(down)
    value = over_queries(statuses).get(LIMITED[threshold.figure])
    if value is None:
        return Verdict(False, f"{threshold.figure} is not known yet", WARN, "NOT_KNOWN", limit)
    is_inside = threshold.holds(value)
    reason = f"{threshold.figure} is {value:,}" + ("" if is_inside else f": not {threshold}")
    return Verdict(is_inside, reason, severity, "LIMIT", limit)


def _not_known(status: JobStatus) -> Verdict:
    """Figures of a query that does not run say nothing about now."""
    return Verdict(False, f"not known: the query is {status.state}", WARN, "NOT_RUNNING")


CHECK_FUNCTIONS: Mapping[str, Callable[[Job], Verdict]] = MappingProxyType(
    {
        "running": check_running,
        "lag": check_lag,
        "progress": check_progress,
        "definition_current": check_definition_current,
        FRESH: check_fresh,
    }
)


@dataclass(frozen=True, slots=True)
class Health:
    """Everything checks read, taken from the journal at one moment.

    Attributes:
        statuses, changes: by query name.
        now: seconds since the epoch.
        readers: relation → names of the queries that read it.
    """

    statuses: Mapping[str, JobStatus]
    changes: Mapping[str, Change]
    now: float
    readers: Mapping[QualifiedName, Sequence[str]] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(cls, control: Control, project: DsProject) -> "Health":
        """Read the journal."""
        statuses = {status.name: status for status in control.statuses()}
        names = [name for name in project.project.queries if name in statuses]
        changes = {change.name: change for change in control.changes(project.project, names)} if names else {}
        return cls(statuses, changes, control.clock.now(), project.project.downstream)

    def of(self, props: RelationProps) -> list[JobStatus]:
        """Statuses of the jobs that fill a relation, without jobs that were never requested."""
        return [self.statuses[query.name] for query in props.queries if query.name in self.statuses]

    def checking(self, props: RelationProps) -> list[JobStatus]:
        """Statuses of the jobs that check a relation's constraints: the jobs that fill it, and the jobs that read it if
        it is declared."""
        is_declared = props.relation is not None and props.relation.declared
        names = [*(query.name for query in props.queries), *(self.readers.get(props.name, ()) if is_declared else ())]
        return [self.statuses[name] for name in dict.fromkeys(names) if name in self.statuses]

    def verdict(self, name: str, props: RelationProps) -> Verdict:
        """One check over all jobs that fill a relation: the first failure, else the first verdict."""
        if name == COMPILES:
            return compiles(props)
        constraint = props.constraint_checks.get(name)
        if constraint is not None:
            return check_constraint(str(props.name), constraint, self.checking(props))
        statuses = self.of(props)
        threshold = next((limit for limit in props.thresholds if limit.name == name), None)
        if threshold is not None:
            return check_threshold(threshold, statuses) if statuses else Verdict(True, "never started", WARN)
        missing = [query.name for query in props.queries if query.name not in self.statuses]
        if missing and name == "running":
            return Verdict(False, f"never started: {', '.join(missing)}", condition="NEVER_STARTED")
        rule = freshness(props) or ROWS
        lag, newest = float(max_lag_seconds(props) or LAG_SECONDS), moment(statuses, rule.source)
        if name == "definition_current" and props.broken is not None and statuses:
            return Verdict(
                False, "the SQL file is refused: the query runs on with its last definition", WARN, "refused"
            )
        jobs = [Job(status, self.changes.get(status.name), self.now, lag, rule, newest) for status in statuses]
        verdicts = [CHECK_FUNCTIONS[name](job) for job in jobs]
        severity = ERROR if name in ("progress", FRESH) else WARN
        nothing = Verdict(True, "never started", severity)
        return next((verdict for verdict in verdicts if not verdict.passed), verdicts[0] if verdicts else nothing)


def compiles(props: RelationProps) -> Verdict:
    """The statement of the relation, and all statements that fill it, are valid."""
    if not props.mistakes:
        return Verdict(True, "valid")
    return Verdict(False, text_of(props.mistakes), condition=props.mistakes[0].condition)


def checks_of(props: RelationProps, translator: DsTranslator) -> tuple[dg.AssetCheckSpec, ...]:
    """Checks of a relation: the translator's, and ``compiles`` if a statement that fills it was refused.

    Raises:
        UserError: CHECK_UNKNOWN.
    """
    specs = translator.get_check_specs(props)
    for spec in specs:
        own = {limit.name for limit in props.thresholds} | props.constraint_checks.keys()
        if spec.name not in CHECK_FUNCTIONS and spec.name not in own:
            whose = type(translator).__name__
            raise error("CHECK_UNKNOWN", check=spec.name, relation=props.name, translator=whose, known=CHECK_FUNCTIONS)
    if not props.mistakes or (props.broken is not None and not props.is_stream):  # such an asset fails by itself
        return tuple(specs)
    text = "Every statement that fills it is valid."
    return (*specs, dg.AssetCheckSpec(COMPILES, asset=translator.get_asset_key(props.name), description=text))


def check_names(props: RelationProps, translator: DsTranslator) -> tuple[str, ...]:
    """Names of the sensor's checks for a relation."""
    names = dict.fromkeys(spec.name for spec in checks_of(props, translator))
    return tuple(names | ({COMPILES: None} if props.mistakes else {}))


def check_metadata(verdict: Verdict, statuses: Sequence[JobStatus]) -> dict[str, Any]:
    """Metadata of a verdict: figures only while every query runs, since the figures of a dead query are out of date."""
    figures = status_metadata(statuses) if are_running(statuses) else state_metadata(statuses)
    return {f"{PREFIX}/reason": verdict.reason, **verdict.metadata, **figures}


def are_running(statuses: Sequence[JobStatus]) -> bool:
    """Whether all jobs run; true without jobs."""
    return all(status.state == "RUNNING" for status in statuses)


def build_ds_checks(
    project: DsProject, translator: DsTranslator, *, name: str | None = None
) -> list[dg.AssetChecksDefinition]:
    """The runnable bodies of all health checks of a project, one op per hundred relations: each reads the journal once,
    cheap enough to run with every launch."""
    translator = mapper_of(project, translator)
    checked = [props for props in surface_of(project, translator).shown if checks_of(props, translator)]
    parts = [checked[start : start + CHECKED_TOGETHER] for start in range(0, len(checked), CHECKED_TOGETHER)]
    first = name or project.named("ds_checks")
    names = [first if part == 0 else f"{first}_{part + 1}" for part in range(len(parts))]
    return [_checks(project, translator, part, own) for part, own in zip(parts, names, strict=True)]


def _checks(
    project: DsProject, translator: DsTranslator, relations: Sequence[RelationProps], name: str
) -> dg.AssetChecksDefinition:
    """One op over the checks of some relations."""
    by_key = {translator.get_asset_key(props.name): props for props in relations}

    @dg.multi_asset_check(
        name=name,
        specs=[spec for props in relations for spec in checks_of(props, translator)],
        can_subset=True,
        description="Health of the streaming queries.",
        required_resource_keys={project.named(CONTROL_KEY)},
    )
    def ds_checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        try:
            health = Health.read(control_resource(context, project).control(project), project)
        except DsError as problem:
            raise failure_of(problem) from problem
        for key in sorted(context.selected_asset_check_keys, key=lambda key: key.to_user_string()):
            props = by_key[key.asset_key]
            verdict = health.verdict(key.name, props)
            yield check_result(key, verdict, check_metadata(verdict, health.of(props)))

    return ds_checks
