"""Reports while the journal cannot be read: what runs is not known, so results of earlier ticks must not look
current."""

from collections.abc import Iterable
from dataclasses import replace

import dagster as dg

from ds_dagster.errors import DsError
from ds_dagster.orchestration.events import PREFIX
from ds_dagster.orchestration.health.cursor import Cursor
from ds_dagster.orchestration.health.report import Event
from ds_dagster.orchestration.health.verdict import ERROR, WARN, Verdict, evaluation
from ds_dagster.orchestration.translator import FRESH

UNSEEN_TICKS = 2
"""Failed ticks in a row until results are written: one tick may meet a lock, or a moment without network."""

SEVERITIES = {"up": ERROR, "running": WARN, FRESH: WARN}
"""The checks that fail while the journal cannot be read, with their severity: the engine may run on without it."""


def unseen_events(problem: DsError, cursor: Cursor, keys: Iterable[dg.AssetKey]) -> tuple[Cursor, tuple[Event, ...]]:
    """The new memory, and a failure of each check that has a result from an earlier tick, once per reason.

    Args:
        problem: why the journal cannot be read.
        cursor: of the last tick.
        keys: the assets of the streams, and of the engine.
    """
    cursor = replace(cursor, unseen=cursor.unseen + 1)
    if cursor.unseen < UNSEEN_TICKS:
        return cursor, ()
    said = dict(cursor.said)
    events: list[Event] = []
    metadata = {f"{PREFIX}/condition": problem.condition, f"{PREFIX}/hint": problem.hint}
    for key in keys:
        path = "/".join(key.path)
        before = cursor.of(path)
        for name, severity in SEVERITIES.items():
            verdict = Verdict(False, f"not known: {problem.message}", severity, f"UNSEEN {problem.condition}")
            if before.verdicts.get(name, verdict.mark) != verdict.mark:
                events.append(evaluation(key, name, verdict, metadata))
                before = replace(before, verdicts={**before.verdicts, name: verdict.mark})
        said |= {path: before} if path in said else {}
    return replace(cursor, said=said), tuple(events)
