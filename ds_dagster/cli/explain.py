"""``ds explain``: the representations of a query, from the statement to the steps of its start."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ds_dagster.catalog.io_spec import ReadSpec, SinkIdentity, TableRead, WriteSpec
from ds_dagster.catalog.properties.latency import mode_text
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.tables import table_read
from ds_dagster.catalog.schemas.formats import offline_schemas, with_descriptors
from ds_dagster.names import QualifiedName
from ds_dagster.plan.explain import explain_plan, explain_statement, plan_json
from ds_dagster.plan.nodes.scan import Scan, start_text
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.plan.state_store import PLACES, state_store
from ds_dagster.project.load import LoadedProject
from ds_dagster.stores.registry import KINDS

Explanation = str | Mapping[str, object]
WRITERS = MappingProxyType({"tasks": ", by tasks in two phases", "driver": ", by the driver"})
"""``engine.kafka_writers`` → who writes to a transactional sink on a cluster."""


def explain_level(
    project: LoadedProject, relation: QualifiedName, level: str, *, as_data: bool = False
) -> dict[str, Explanation]:
    """One level of every query that fills a relation, by query name; for a declared relation its statement.

    Args:
        project: the loaded project.
        relation: the relation that the queries fill.
        level: statement, plan, spark or stages.
        as_data: return the plan as data instead of a tree.
    """
    parts, queries = project.parts_of(relation), project.queries_of(relation)
    if not queries:
        return {relation.name: project.catalog.relations[relation].origin.text}
    if level == "spark":
        return dict(_spark_plans(project, queries))
    if level == "stages":
        return {query.name: _stages(project, query) for query in queries}
    explain = plan_json if as_data and level == "plan" else OF_PARTS[level]
    return {part.name: explain(part) for part in parts}


def _stages(project: LoadedProject, query: BoundQuery) -> str:
    """Steps of a start, in order; no server is contacted."""
    return "\n".join(f"{number} {text}" for number, text in enumerate(_steps(project, query), start=1))


def _steps(project: LoadedProject, query: BoundQuery) -> list[str]:
    stores = dict.fromkeys(relation.store for relation in (*query.inputs, *query.sinks))
    steps = [f"check store {name} ({project.catalog.store(name).kind})" for name in stores]
    for relation in dict.fromkeys((*query.sources, *(sink.name for sink in query.sinks))):
        steps.append(_ensured(project, relation))
    writes = [_write_spec(project, part) for part in query.parts]
    for write in writes:
        if write.transactional:
            steps.append(f"fence: abort transactions that an earlier run of {query.name} left open in {write.entity}")
    if query.is_finite:
        steps.append(f"wait until upstream has processed all present records, then run once ({query.refresh})")
    store = state_store(query)
    place = "" if store is None else f", kept {PLACES[store]} ('state.store' = '{store}')"
    steps.append(f"open the checkpoint of {query.name}: state {query.state_signature}{place}")
    sources = ", ".join(f"{s.relation.store}.{s.relation.entity} from {start_text(s)}" for s in query.scans)
    written = ", ".join(f"{write.entity} ({_guarantee(project, write)})" for write in writes)
    modes = "".join(f"; {mode}" for sink in query.sinks if (mode := mode_text(sink)))
    steps.append(f"start: {sources} → {written}{modes}")
    steps.append(
        "report rows from the ledger" if query.is_finite else "wait for the first batch, or for an empty source"
    )
    return steps


def _guarantee(project: LoadedProject, write: WriteSpec) -> str:
    """The delivery of a sink; of a transactional one on a cluster also who writes its records."""
    engine = project.settings.engine
    by = WRITERS[engine.kafka_writers] if write.transactional and engine.is_cluster else ""
    return write.delivery.replace("_", " ") + by


def _ensured(project: LoadedProject, name: QualifiedName) -> str:
    relation = project.catalog.relations[name]
    store = project.catalog.store(relation.store)
    kind = KINDS[store.kind]
    plan = kind.entity_plan(relation)
    if relation.kind in ("materialized_view", "table"):
        return f"prepare {relation.kind.replace('_', ' ')} {plan.name} in {store.name}, or compare its columns"
    counts = [f"{count} = {number}" for count, number in plan.counts.items()]
    if plan.like is not None and not counts:
        counts = [f"counts and settings of {'.'.join(plan.like)}"]
    settings = [f"{name} = {value}" for name, value in plan.settings.items()]
    return f"ensure {store.name}.{plan.name}: {', '.join([*counts, *settings]) or 'as it is'}"


OF_PARTS: Mapping[str, Callable[[Part], Explanation]] = MappingProxyType(
    {"statement": explain_statement, "plan": explain_plan}
)
"""Level of single statements → function that explains a statement. An application has several statements."""


# --- Spark ------------------------------------------------------------------------------------------------------------


def _spark_plans(project: LoadedProject, queries: tuple[BoundQuery, ...]) -> Mapping[str, str]:
    """Compile with offline read specs in a local session; no server is contacted, nothing is read."""
    from ds_dagster.jars import driver_jars
    from ds_dagster.spark.queries.query import close, explain
    from ds_dagster.spark.session import build_session, stderr_of_jvm

    settings = replace(project.settings, engine=replace(project.settings.engine, master="local[1]", cores=1))
    jars = driver_jars()
    with tempfile.TemporaryDirectory(prefix="ds-explain-") as folder, stderr_of_jvm(Path(folder, "stderr.log")):
        spark = build_session(settings, jars=jars, app_name="ds explain")
    try:
        plans = {}
        for query in queries:
            prepared = _prepared(spark, project, query)
            try:
                plans[query.name] = explain(prepared)
            finally:
                close(prepared)
        return plans
    finally:
        spark.stop()


def _prepared(spark: Any, project: LoadedProject, query: BoundQuery) -> Any:
    from ds_dagster.spark.queries.prepared import prepare

    reads = {scan.source_name: _read_spec(project, scan) for scan in query.scans}
    tables = {scan.source_name: _table_read(project, scan) for scan in query.tables}
    writes = {part.name: _write_spec(project, part) for part in query.parts}
    return prepare(
        spark,
        query,
        reads=reads,
        tables=tables,
        writes=writes,
        identity=SinkIdentity(f"explain.{query.name}", 1),
        resolve=_offline,
        job_name=f"explain {query.name}",
    )


def _table_read(project: LoadedProject, scan: StaticScan) -> TableRead:
    store = project.catalog.store(scan.relation.store)
    return table_read(KINDS[store.kind], store, scan.relation)


def _read_spec(project: LoadedProject, scan: Scan) -> ReadSpec:
    store = project.catalog.store(scan.relation.store)
    spec = KINDS[store.kind].read_spec(store, scan.relation, scan.reading, None)
    return replace(spec, schemas=with_descriptors(spec.schemas))


def _write_spec(project: LoadedProject, part: Part) -> WriteSpec:
    store = project.catalog.store(part.sink.store)
    return offline_schemas(KINDS[store.kind].write_spec(store, part.sink, part.refresh), part.sink)


def _offline(value: PropertyValue) -> str:
    """References stay unresolved: a plan needs no secret."""
    return "" if value.secret or value.is_reference else str(value.value)
