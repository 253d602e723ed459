"""The incident log of assets: every transition of a query becomes one observation on the assets it fills."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from ds_dagster.orchestration.events import transition_metadata
from ds_dagster.orchestration.health.cursor import Cursor
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.runtime.views import history

FIRST_SECONDS = 3600.0
"""A sensor that meets a journal for the first time goes back so far."""

MOST = 200
"""Transitions in one tick; the rest comes with the next ones."""


@dataclass(frozen=True, slots=True)
class Told:
    """Events in the order of the journal, and the memory after them."""

    events: tuple[dg.AssetObservation, ...]
    cursor: Cursor


def transitions_told(
    control: Control, relations: Sequence[RelationProps], translator: DsTranslator, cursor: Cursor
) -> Told:
    """What happened to the queries of some relations since the last tick, each transition once.

    The cursor holds the id of the last transition. Another journal (a state folder that was deleted) begins again.
    """
    journal, moved = history(control.journal, cursor.seen, since=cursor.since, limit=MOST)
    if journal != cursor.journal:
        cursor = replace(cursor, journal=journal, since=control.clock.now() - FIRST_SECONDS, seen=0)
        _, moved = history(control.journal, 0, since=cursor.since, limit=MOST)
    assets = _assets(relations, translator)
    events = [_event(key, t) for _, t in moved if t.kind == "state" for key in assets.get(t.name, ())]
    return Told(tuple(events), replace(cursor, seen=moved[-1][0]) if moved else cursor)


def _assets(relations: Sequence[RelationProps], translator: DsTranslator) -> Mapping[str, list[dg.AssetKey]]:
    """Query → the assets it fills."""
    keys: dict[str, list[dg.AssetKey]] = {}
    for props in relations:
        for query in props.queries:
            keys.setdefault(query.name, []).append(translator.get_asset_key(props.name))
    return keys


def _event(key: dg.AssetKey, moved: Transition) -> dg.AssetObservation:
    reason = f"{moved.reason}: {moved.message}" if moved.message else moved.reason
    text = f"{moved.name}: {moved.source} to {moved.target}, {reason}"
    return dg.AssetObservation(key, description=text, metadata=transition_metadata(moved))
