"""Conditions of the topics: versions whose rows are compared, the current rows of changelogs, and queries that are
renamed."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition("DIFF_IMPOSSIBLE", "user", "{relation} has no versions to compare: {reason}", "{fix}"),
    Condition(
        "DIFF_WITHOUT_VERSION",
        "user",
        "{relation} does not have {which} to compare with the serving version",
        "{fix}",
    ),
    Condition(
        "DIFF_WITHOUT_ROWS",
        "user",
        "version {version} of {relation} has not written any rows yet; it is {state}",
        "{fix}",
    ),
    Condition(
        "DIFF_WITHOUT_KEY",
        "user",
        "versions of {relation} cannot be compared row by row: one has the key {before}, the other {after}",
        "`ds plan` shows how columns and keys change; `ds promote` compares the numbers of rows first",
    ),
    Condition(
        "DIFF_FORMAT_NOT_YET",
        "not_yet",
        "records of {relation} are {format}, which `ds diff` does not decode yet",
        "`ds plan` shows how columns and keys change; `ds promote` compares the numbers of rows first",
    ),
    Condition(
        "CHANGELOG_TOO_LARGE",
        "user",
        "the topic {entity} has more than {most} {what}, so its current rows are not read",
        "`ds promote --yes` lets a version take over without a comparison; a materialized view over the changelog can "
        "be queried",
    ),
    Condition(
        "CHANGELOG_ROW_UNREADABLE",
        "user",
        "record {place} of {entity} cannot be read as a row of {relation}: {reason}",
        "`ds print` shows the record; if another program wrote it, delete its key there",
    ),
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
