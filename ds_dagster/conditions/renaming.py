"""Conditions of the topic: queries that are renamed."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "RENAMED_FROM_INVALID",
        "user",
        "@renamed_from {value} is refused: {reason}",
        "write the former name of the query, which no statement makes any more: -- @renamed_from old_name",
    ),
    Condition(
        "RENAME_REFUSED",
        "user",
        "{name} cannot continue {former}: {reason}",
        "rename first and change that afterwards; without the line `@renamed_from {former}` {name} starts over as a "
        "new query",
    ),
    Condition(
        "RELATION_HAS_ANOTHER_JOB",
        "user",
        "{job}, which has no statement any more, writes {relation} too: with {name} every row would come twice",
        "write `-- @renamed_from {job}` above the statement to continue that job; or end it with `ds stop {job}`, then "
        "{name} writes the rows again from its starting position",
    ),
    Condition(
        "RENAME_UNDERWAY",
        "user",
        "{former} is being renamed to {name}",
        "try again when it runs as {name}; a running engine changes the name, `ds ps` shows what it waits for",
    ),
    Condition(
        "RENAME_TARGET_TAKEN",
        "user",
        "the table of {former} cannot get the name {name}: another object has it",
        "rename or drop that object; `ds stop {former}` gives up the renaming",
    ),
)
