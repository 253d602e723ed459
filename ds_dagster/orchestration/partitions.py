"""``@partitions`` → Dagster's time windows, and the range of a table that a run of them computes again."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

import dagster as dg

from ds_dagster.catalog.reading.ranges import TimeRange
from ds_dagster.errors import error
from ds_dagster.orchestration.events import PREFIX
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime.backfill import Backfill
from ds_dagster.runtime.deciding.backfilling import range_column
from ds_dagster.sql.partitions import Every, Partitions

FORMATS: Mapping[Every, str] = MappingProxyType(
    {"hourly": "%Y-%m-%d-%H:%M", "daily": "%Y-%m-%d", "weekly": "%Y-%m-%d", "monthly": "%Y-%m-%d"}
)
"""Formats of partition names, the same as in Dagster's own definitions."""
SUNDAY = 7
"""Sunday's number in ``isoweekday``; in cron it is 0."""


def time_windows(rule: Partitions) -> dg.TimeWindowPartitionsDefinition:
    """The partitions of one ``@partitions``, in UTC; a window becomes a partition when it ends."""
    weekday = rule.begin.isoweekday() % SUNDAY
    schedules: Mapping[Every, str] = {
        "hourly": "0 * * * *",
        "daily": "0 0 * * *",
        "weekly": f"0 0 * * {weekday}",
        "monthly": "0 0 1 * *",
    }
    begin = datetime(rule.begin.year, rule.begin.month, rule.begin.day, tzinfo=timezone.utc)
    return dg.TimeWindowPartitionsDefinition(
        start=begin, fmt=FORMATS[rule.every], cron_schedule=schedules[rule.every], timezone="UTC"
    )


def is_of_partitions(context: dg.AssetExecutionContext) -> bool:
    """Whether a run is of partitions, one or a range of them."""
    return bool(context.has_partition_key or context.has_partition_key_range)


def backfill_of(
    context: dg.AssetExecutionContext, props: RelationProps, query: BoundQuery, **backfill: Any
) -> Backfill:
    """The backfill of the run's range of partitions.

    Args:
        context: of a run of partitions.
        props, query: of the table.
        backfill: further arguments of :class:`Backfill`.

    Raises:
        UserError: BACKFILL_REFUSED.
    """
    rule, window = props.partitions, context.partition_time_window
    begin, end = (moment.astimezone(timezone.utc) for moment in (window.start, window.end))
    span = TimeRange(range_column(query, rule.column if rule else ""), begin, end)
    return Backfill(query=query, span=span, lateness=rule.lateness if rule else None, **backfill)


def recomputed(context: dg.AssetExecutionContext, backfill: Backfill) -> dict[str, Any]:
    """Compute the range again; returns metadata on the range and the rows replaced.

    Raises:
        UserError: BACKFILL_REFUSED, BACKFILL_RECORDS_GONE, BACKFILL_OVERTAKEN. DsError: of the stores, of Spark.
    """
    span, planned = backfill.span, backfill.planned()
    words = str(span)
    context.log.info(f"{backfill.query.name}, {words}: {planned}")
    replaced = backfill.carried_out(planned)
    metadata: dict[str, Any] = {
        f"{PREFIX}/range": words,
        f"{PREFIX}/rows_inserted": replaced.inserted,
        f"{PREFIX}/rows_deleted": replaced.deleted,
    }
    amount = asdict(planned.past.amount)
    metadata |= {f"{PREFIX}/{name}_read": number for name, number in amount.items() if number is not None}
    single = context.has_partition_key
    return ({"dagster/partition_row_count": replaced.inserted} if single else {}) | metadata


def check_action(action: str, props: RelationProps) -> None:
    """Raises: UserError PARTITIONS_WITH_RESET for a reset: a run of partitions only replaces ranges."""
    if action != "ensure":
        raise error("PARTITIONS_WITH_RESET", name=props.name.name)
