"""The incident log of assets: every transition of a query becomes one observation on each asset it fills, every schema
change of a source one observation on the source's asset."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from ds_dagster.envelope import parameters_of
from ds_dagster.orchestration.events import shape_metadata, transition_metadata
from ds_dagster.orchestration.health.cursor import Cursor
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.runtime.views import history

FIRST_SECONDS = 3600.0
"""How far a sensor goes back in a journal that it reads for the first time."""

MOST = 200
"""Most transitions in one tick; the rest is reported in the next ticks."""


@dataclass(frozen=True, slots=True)
class Told:
    """State events in the order of the journal, then schema changes; and the cursor after them."""

    events: tuple[dg.AssetObservation, ...]
    cursor: Cursor


def transitions_told(
    control: Control,
    relations: Sequence[RelationProps],
    sources: Sequence[RelationProps],
    translator: DsTranslator,
    instance: dg.DagsterInstance,
    cursor: Cursor,
) -> Told:
    """Events since the last tick: one for each transition of the queries that fill ``relations``, one for each schema
    change of ``sources``, even if several queries read the new version in the same tick.

    The cursor holds the id of the last transition. It starts over with a new journal (the state folder was deleted).
    """
    journal, moved = history(control.journal, cursor.seen, since=cursor.since, limit=MOST)
    if journal != cursor.journal:
        cursor = replace(cursor, journal=journal, since=control.clock.now() - FIRST_SECONDS, seen=0)
        _, moved = history(control.journal, 0, since=cursor.since, limit=MOST)
    assets = _assets(relations, translator)
    events = [_event(key, t) for _, t in moved if t.kind == "state" for key in assets.get(t.name, ())]
    shapes = [t for _, t in moved if t.kind == "shape" and t.condition]
    events += _shape_events({(t.actor, t.target): t for t in shapes}.values(), sources, translator, instance)
    return Told(tuple(events), replace(cursor, seen=moved[-1][0]) if moved else cursor)


def _assets(relations: Sequence[RelationProps], translator: DsTranslator) -> Mapping[str, list[dg.AssetKey]]:
    """Query → the assets it fills."""
    keys: dict[str, list[dg.AssetKey]] = {}
    for props in relations:
        for query in props.queries:
            keys.setdefault(query.name, []).append(translator.get_asset_key(props.name))
    return keys


def _shape_events(
    changes: Iterable[Transition],
    sources: Sequence[RelationProps],
    translator: DsTranslator,
    instance: dg.DagsterInstance,
) -> Iterator[dg.AssetObservation]:
    """One observation per schema change. It copies the data version of the last observation: without it every reader
    turns stale."""
    keys = {str(props.name): translator.get_asset_key(props.name) for props in sources}
    for moved in changes:
        key = keys.get(str(parameters_of(moved.parameters)["relation"]))
        if key is not None:
            records = instance.fetch_observations(key, limit=1).records
            tags = records[0].asset_observation.tags if records and records[0].asset_observation else {}
            version = {name: value for name, value in (tags or {}).items() if name == DATA_VERSION_TAG}
            yield dg.AssetObservation(key, description=moved.message, metadata=shape_metadata(moved), tags=version)


def _event(key: dg.AssetKey, moved: Transition) -> dg.AssetObservation:
    reason = f"{moved.reason}: {moved.message}" if moved.message else moved.reason
    text = f"{moved.name}: {moved.source} to {moved.target}, {reason}"
    return dg.AssetObservation(key, description=text, metadata=transition_metadata(moved))
