"""Conditions of the topic: backfills, which compute the rows of a time range again."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "BACKFILL_REFUSED",
        "user",
        "rows of {name} cannot be replaced by a range of time: {reason}",
        "`ds reset {name}` computes all of it again; to repair ranges of an aggregate, keep its input in a table and "
        "backfill that table",
    ),
    Condition(
        "BACKFILL_RECORDS_GONE",
        "user",
        "records for that range of {name} may be gone; the oldest record that is left is from {first}",
        "begin later, and write how far a record's time may be from the time of its rows, for example --lateness 1h "
        "(for topics whose broker stamps records, and for files that are removed oldest first)",
    ),
    Condition(
        "BACKFILL_OVERTAKEN",
        "user",
        "{table} was loaded or replaced while its rows were computed from the records up to {batch}; nothing was "
        "changed",
        "run it again between two loads, or `ds stop` the query first",
    ),
)
