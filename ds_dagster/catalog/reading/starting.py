"""Where a new query begins to read a source, and whether it may skip records that are gone."""

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

StartingPosition = Literal["earliest", "latest", "timestamp", "offsets"]
Offsets = tuple[tuple[int, int], ...]
"""Pairs (partition, offset of the first record to read), sorted by partition. In Kinesis: number of a shard, sequence
number."""
DataLoss = Literal["fail", "skip"]
POSITION, MOMENT, OFFSETS, LOSS = "starting.position", "starting.timestamp", "starting.offsets", "source.data.loss"
POSITIONS: Mapping[str, StartingPosition] = MappingProxyType(
    {"earliest": "earliest", "latest": "latest", "timestamp": "timestamp", "offsets": "offsets"}
)
PROPERTY_OF: Mapping[StartingPosition, tuple[str, str]] = MappingProxyType(
    {
        "timestamp": (MOMENT, "'2026-01-31T12:00:00Z', or milliseconds since 1970"),
        "offsets": (OFFSETS, "'0:1200,1:1180'"),
    }
)
"""Position → (property that it requires and other positions refuse, example of its value)."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Where a query without a checkpoint begins.

    Attributes:
        position: earliest, latest, the first record at or after ``timestamp``, or in each partition the record at its
            offset.
        timestamp: epoch milliseconds, with position ``timestamp`` only. Compared with the records' own timestamps.
        offsets: with position ``offsets`` only; partitions that are not among them begin with their oldest record.
    """

    position: StartingPosition = "earliest"
    timestamp: int | None = None
    offsets: Offsets = ()


def starting_point(
    values: Mapping[str, PropertyValue],
    default: StartingPoint = StartingPoint(),
    span: Span | None = None,
    kind: StoreKind | None = None,
) -> StartingPoint:
    """Starting position from the WITH of a relation or source, over the default.

    Args:
        values: converted properties.
        default: of the relation, for the WITH after a source.
        span: where a property is missing.
        kind: of the store that is read; None: any position.

    Raises:
        UserError: STARTING_POSITION_NOT_HERE, STARTING_POSITION_INCOMPLETE, STARTING_PROPERTY_UNUSED,
            PROPERTY_INVALID (an offset that no record of the store can have).
    """
    word = values.get(POSITION)
    position = default.position if word is None else POSITIONS[str(word.value)]
    place = (word.span if word is not None else None) or span
    if kind is not None and position not in kind.capabilities.starting_positions:
        positions = " or ".join(kind.capabilities.starting_positions)
        raise error("STARTING_POSITION_NOT_HERE", span=place, kind=kind.name, position=position, positions=positions)
    for belongs, (name, example) in PROPERTY_OF.items():
        value = values.get(name)
        if belongs == position and value is None and default.position != position:
            raise error("STARTING_POSITION_INCOMPLETE", span=place, position=position, name=name, example=example)
        if belongs != position and value is not None:
            wrong = {"name": name, "position": position, "belongs": belongs}
            raise error("STARTING_PROPERTY_UNUSED", span=value.span or span, **wrong)
    moment, offsets = values.get(MOMENT), values.get(OFFSETS)
    if position == "timestamp":
        return StartingPoint(position, timestamp=default.timestamp if moment is None else int(moment.value))
    if position == "offsets":
        return StartingPoint(position, offsets=default.offsets if offsets is None else _written(offsets, kind))
    return StartingPoint(position)


def offsets_text(offsets: Offsets) -> str:
    """Offsets as SQL writes them: ``0:1200,1:1180``."""
    return ",".join(f"{partition}:{offset}" for partition, offset in offsets)


def parse_offsets(text: str) -> Offsets:
    """The offsets of :func:`offsets_text`.

    Raises:
        ValueError: for any other text.
    """
    pairs = (pair.split(":") for pair in text.split(","))
    return tuple((int(partition), int(offset)) for partition, offset in pairs)


def partition_number(name: str) -> int | None:
    """The number by which ``'starting.offsets'`` names a partition: 3 for ``3`` and for ``shardId-000000000003``; None
    for a name without a number at its end."""
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else None


def _written(value: PropertyValue, kind: StoreKind | None) -> Offsets:
    offsets = parse_offsets(str(value.value))
    if kind is not None and any(offset > kind.capabilities.last_offset for _, offset in offsets):
        allowed = f"offsets up to {kind.capabilities.last_offset}"
        raise error("PROPERTY_INVALID", span=value.span, name=OFFSETS, value=value.value, allowed=allowed)
    return offsets


def check_reading(kind: StoreKind, choices: ReadChoices, span: Span) -> Sequence[Diagnostic]:
    """Refuse reading options that a query uses and the store kind lacks (DATA_LOSS_NOT_SKIPPED)."""
    if choices.data_loss == "skip" and not kind.capabilities.skips_lost_records:
        return [error("DATA_LOSS_NOT_SKIPPED", span=span, kind=kind.name).diagnostic()]
    return []
