"""Where a new query begins to read a source, and whether it may go on past records that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import error

if TYPE_CHECKING:
    from ds_dagster.catalog.declaring.inference import ReadChoices
    from ds_dagster.catalog.store import StoreKind

StartingPosition = Literal["earliest", "latest", "timestamp"]
DataLoss = Literal["fail", "skip"]
POSITION, MOMENT, LOSS = "starting.position", "starting.timestamp", "source.data.loss"
POSITIONS: Mapping[str, StartingPosition] = MappingProxyType(
    {"earliest": "earliest", "latest": "latest", "timestamp": "timestamp"}
)


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Where a query without a checkpoint begins.

    Attributes:
        position: earliest, latest, or the first record at or behind ``timestamp``.
        timestamp: epoch milliseconds, with position ``timestamp`` only. Compared with the records' own timestamps.
    """

    position: StartingPosition = "earliest"
    timestamp: int | None = None


def starting_point(
    values: Mapping[str, PropertyValue], default: StartingPoint = StartingPoint(), span: Span | None = None
) -> StartingPoint:
    """Starting position from the WITH of a relation or source, over the default.

    Args:
        values: converted properties.
        default: of the relation, for the WITH after a source.
        span: where a property is missing.

    Raises:
        UserError: STARTING_TIMESTAMP_MISSING, STARTING_TIMESTAMP_UNUSED.
    """
    word, moment = values.get(POSITION), values.get(MOMENT)
    position = default.position if word is None else POSITIONS[str(word.value)]
    if position != "timestamp":
        if moment is not None:
            raise error("STARTING_TIMESTAMP_UNUSED", span=moment.span or span, position=position)
        return StartingPoint(position)
    timestamp = default.timestamp if moment is None else int(moment.value)
    if timestamp is None:
        raise error("STARTING_TIMESTAMP_MISSING", span=(word.span if word is not None else None) or span)
    return StartingPoint(position, timestamp)


def check_reading(kind: StoreKind, choices: ReadChoices, span: Span) -> Sequence[Diagnostic]:
    """Reading options that a store kind lacks and a query uses: each is refused, none is dropped silently."""
    problems = []
    able = kind.capabilities
    if choices.start.position == "timestamp" and not able.starts_at_timestamp:
        problems.append(error("STARTING_TIMESTAMP_NOT_HERE", span=span, kind=kind.name).diagnostic())
    if choices.data_loss == "skip" and not able.skips_lost_records:
        problems.append(error("DATA_LOSS_NOT_SKIPPED", span=span, kind=kind.name).diagnostic())
    return problems
