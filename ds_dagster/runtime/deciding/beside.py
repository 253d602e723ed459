"""Which queries can have two versions beside each other."""

from __future__ import annotations

from ds_dagster.catalog.versions import KeepsVersions
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, keeps_slot, kind_of_store

OWNED = ("materialized_view", "table")
"""Kinds of relations whose rows are their query's alone, where no statement declares them."""

WORDS = "materialized views and tables of CREATE TABLE … AS that run all the time"


def why_not_beside(project: LoadedProject, query: BoundQuery, old: BoundQuery | None = None) -> str:
    """Why a definition cannot be built beside the one that serves; empty where it can.

    Args:
        project: with the stores.
        query: the new definition.
        old: the one that serves; None: it is not compared.
    """
    if query.is_finite:
        return "each of its loads ends by itself"
    others = [sink for sink in query.sinks if sink.kind not in OWNED or sink.declared]
    if others:
        return f"it writes the {others[0].kind} {others[0].name}, and only {WORDS} have versions"
    if query.logs:
        return f"both versions would write the row log {query.logs[0].name}"
    sink = next((sink for sink in query.sinks if not isinstance(kind_of_store(project, sink), KeepsVersions)), None)
    if sink is not None:
        return f"store {sink.store} of {sink.name} does not keep versions of a view"
    slots = [scan.relation.name for scan in query.scans if keeps_slot(project, scan.relation)]
    if slots:
        return f"the replication slot of {slots[0]} gives each change once"
    return "" if old is None else _moved(query, old)


def _moved(query: BoundQuery, old: BoundQuery) -> str:
    """A public name can only be handed over inside one store."""
    places = {sink.name: (sink.store, sink.entity) for sink in old.sinks}
    sink = next((sink for sink in query.sinks if places.get(sink.name) != (sink.store, sink.entity)), None)
    return "" if sink is None else f"{sink.name} is in another place now: {sink.store}.{sink.entity}"
