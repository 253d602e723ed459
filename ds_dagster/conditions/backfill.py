"""Conditions of the topic: rows of a range of time that are computed again."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "BACKFILL_REFUSED",
        "user",
        "rows of {name} cannot be replaced by a range of time: {reason}",
        "`ds reset {name}` computes all of it again; `ds plan` says whether a new version can be built",
    ),
    Condition(
        "BACKFILL_RECORDS_GONE",
        "user",
        "records that had rows of that range in {name} may be gone; those that are there begin at {first}",
        "begin later, and name with --lateness how far a record's own time may be from the time of its rows (topics "
        "whose broker stamps records)",
    ),
    Condition(
        "BACKFILL_OVERTAKEN",
        "user",
        "{table} was loaded or replaced while its rows were computed from the records up to {batch}; nothing was "
        "changed",
        "run it again between two loads, or `ds stop` the query first",
    ),
)
