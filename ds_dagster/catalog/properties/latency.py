"""Properties of how a query runs: batch after batch, or record after record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_dagster.catalog.properties.spec import Place, PropertySpec

if TYPE_CHECKING:
    from ds_dagster.catalog.relation import Relation

MODE = "latency.mode"
CHECKPOINT = "latency.checkpoint.millis"
DEFAULT_CHECKPOINT_MILLIS = 10_000
KEPT_SLOTS = 1
"""Task slots of an engine that queries in real-time mode leave to the batches of others, which would stand still
without one."""
_PLACES: tuple[Place, ...] = ("relation", "sink")

LATENCY: tuple[PropertySpec, ...] = (
    PropertySpec(
        MODE,
        "word",
        _PLACES,
        "how the query that fills it runs: in micro-batches (default), or in real-time mode, which passes each record "
        "on within milliseconds, at least once (stateless, from one topic of KAFKA into another)",
        choices=("microbatch", "realtime"),
    ),
    PropertySpec(
        CHECKPOINT,
        "millis",
        _PLACES,
        "time between two checkpoints in real-time mode, 5000 to 60000; default 10000. After a restart, rows since the "
        "last checkpoint are written again",
        minimum=5000,
    ),
)


def realtime_millis(relation: Relation) -> int | None:
    """Milliseconds between two checkpoints of the queries that fill a relation in real-time mode; None: they run in
    micro-batches."""
    if relation.option(MODE) != "realtime":
        return None
    return int(relation.option(CHECKPOINT) or DEFAULT_CHECKPOINT_MILLIS)


def mode_text(relation: Relation) -> str:
    """How the queries that fill a relation run, with their guarantee; empty for micro-batches, the usual mode."""
    millis = realtime_millis(relation)
    if millis is None:
        return ""
    return f"real-time, at least once: a restart repeats rows since the last checkpoint (every {millis / 1000:g} s)"
