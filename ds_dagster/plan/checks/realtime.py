"""Real-time mode (``'latency.mode' = 'realtime'``): which queries may run in it.

Spark's real-time mode passes each record on as soon as it is read, in tasks that run for a whole checkpoint interval.
It takes plans of one source and one sink without state, all in the JVM, and calls nothing at the end of a batch. So the
steps that may run are listed here; every other step is refused, also one that is added to the package later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.properties.latency import CHECKPOINT, MODE
from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.functions.table import ROW_FUNCTIONS
from ds_dagster.plan.binding.sources import World
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct, Fold, Weigh
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Node, expressions_of
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.rows import Filter, Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window
from ds_dagster.plan.nodes.window_join import WindowExtreme, WindowJoin
from ds_dagster.sql.expressions import UserCall

MOST_CHECKPOINT_MILLIS = 60_000
"""A query reports once per checkpoint, and health checks expect a report within two minutes."""

ALLOWED: frozenset[type[Node]] = frozenset({Scan, Filter, Project, Unnest, Sink})
"""The nodes of plans that may run in real-time mode."""

WORDS: Mapping[type[Node], str] = MappingProxyType(
    {
        Aggregate: "GROUP BY",
        DeltaAggregate: "GROUP BY",
        DeltaJoin: "a join of changelogs",
        Distinct: "DISTINCT",
        Fold: "a changelog with retractions",
        IntervalJoin: "a join WITHIN a time",
        Match: "MATCH_RECOGNIZE",
        Over: "OVER",
        StaticJoin: "a join with a table",
        TemporalJoin: "a join with the versions of a changelog",
        TopN: "ROW_NUMBER or RANK",
        Union: "UNION",
        Weigh: "a changelog with retractions",
        Window: "a window",
        WindowExtreme: "the greatest or least rows of a window",
        WindowJoin: "a join of windows",
    }
)
"""Node → how the statement calls it; the names of other nodes stand for themselves."""


def refused_step(kind: type[Node]) -> str:
    """How to call a kind of node that real-time mode does not run; empty if it runs it."""
    return "" if kind in ALLOWED else WORDS.get(kind, kind.__name__)


def check_realtime(
    root: Sink, log: Relation | None, world: World, span: Span, *, in_application: bool
) -> Iterator[DsError]:
    """REALTIME_UNSUPPORTED, once per reason, REALTIME_DELIVERY and REALTIME_CHECKPOINT_UNUSED.

    Args:
        root: the final plan.
        log: the log of failing rows, or None.
        world: the project.
        span: of the statement, for properties that are not written in it.
        in_application: the query has other sinks.
    """
    relation, name = root.relation, root.relation.name.name
    if relation.option(MODE) != "realtime":
        if CHECKPOINT in relation.properties:
            place = relation.properties[CHECKPOINT].span or span
            yield error("REALTIME_CHECKPOINT_UNUSED", span=place, relation=name)
        return
    place = relation.properties[MODE].span or span
    for reason in dict.fromkeys(_reasons(root, log, world, in_application=in_application)):
        yield error("REALTIME_UNSUPPORTED", span=place, relation=name, reason=reason)
    kind = world.kinds[world.catalog.store(relation.store).kind]
    if kind.capabilities.runs_in_realtime and delivery(relation.kind, relation.properties, kind) == "exactly_once":
        yield error("REALTIME_DELIVERY", span=place, relation=name)


def _reasons(root: Sink, log: Relation | None, world: World, *, in_application: bool) -> Iterator[str]:
    if in_application:
        yield "an application has several sinks"
    yield from _of_steps(root)
    yield from _of_places(root, world)
    yield from _of_logs(root, log)
    for scan in (node for node in root.walk() if isinstance(node, Scan)):
        if scan.data_loss == "skip":
            yield "records that are gone cannot be counted ('source.data.loss' = skip)"
        if scan.max_records_per_batch is not None:
            yield "a batch ends by time, not by records ('max.records.per.batch')"
    if int(root.relation.option(CHECKPOINT) or 0) > MOST_CHECKPOINT_MILLIS:
        yield f"'{CHECKPOINT}' is above {MOST_CHECKPOINT_MILLIS}, and a query reports once per checkpoint"


def _of_steps(root: Sink) -> Iterator[str]:
    for node in root.walk():
        step = refused_step(type(node))
        if step:
            yield f"it has {step}"
        for part in expressions_of(node):
            for call in part.tree.find_all(UserCall):
                if call.args["function"].language == "python":
                    yield f"the function {call.args['function'].name} runs in Python"
            for built_in in part.tree.find_all(exp.Anonymous):
                function = ROW_FUNCTIONS.get(str(built_in.this))
                if function is not None and function.of_batch and not built_in.expressions:
                    yield f"{built_in.this} would be the time of the last checkpoint"


def _of_places(root: Sink, world: World) -> Iterator[str]:
    scans = {node.source_name: node for node in root.walk() if isinstance(node, Scan)}
    if len(scans) > 1:
        yield f"it reads {len(scans)} sources"
    for verb, relation in (*(("reads", scan.relation) for scan in scans.values()), ("writes", root.relation)):
        store = world.catalog.store(relation.store)
        is_streamed = relation.kind in ("stream", "changelog")
        if not is_streamed or not world.kinds[store.kind].capabilities.runs_in_realtime:
            yield f"it {verb} {relation.name.name} in store {store.name} ({store.kind}), not a topic of KAFKA"


def _of_logs(root: Sink, log: Relation | None) -> Iterator[str]:
    """Logs are written at the end of a batch, with its rows."""
    for node in root.walk():
        if isinstance(node, Scan) and node.log is not None:
            yield "bad records cannot be logged ('source.deserialization.error.handling' = IGNORE_AND_LOG)"
        if isinstance(node, Scan | Sink) and node.quarantine is not None:
            yield "rows cannot be quarantined (ON VIOLATION QUARANTINE)"
    if log is not None:
        yield "failing rows cannot be logged ('row.error.handling' = IGNORE_AND_LOG)"
