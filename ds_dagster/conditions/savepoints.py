"""Conditions of the topic: savepoints."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "SAVEPOINT_REFUSED",
        "user",
        "no savepoint of {name} is made: {reason}",
        "`ds ps` shows the query's batches; `ds savepoint --list` shows the savepoints there are",
    ),
    Condition(
        "SAVEPOINT_UNKNOWN",
        "user",
        "there is no savepoint {savepoint} of {name}",
        "did you mean {nearest}? `ds savepoint --list` lists them, `--from` names another folder",
    ),
    Condition(
        "SAVEPOINT_UNREADABLE",
        "external",
        "the savepoint in {path} cannot be read",
        "put the whole folder back, or delete it",
    ),
    Condition(
        "SAVEPOINT_NOT_WRITTEN",
        "external",
        "the savepoint of {name} cannot be written or deleted",
        "check the folder's permissions and free space; nothing else has changed",
    ),
    Condition(
        "RESTORE_WHILE_RUNNING",
        "user",
        "{name} is {state}; a savepoint is restored while its query is stopped",
        "run `ds stop {name}` first",
    ),
    Condition(
        "RESTORE_REFUSED",
        "user",
        "{name} cannot resume from savepoint {savepoint}: {reason}",
        "{hint}",
    ),
)
