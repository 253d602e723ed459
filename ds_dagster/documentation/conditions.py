"""Explanations of conditions, as `ds errors NAME` and the documentation show them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ds_dagster.conditions import CONDITIONS, TOPICS, render

KINDS: Mapping[str, str] = {
    "user": "the project, the SQL or the environment is at fault; never retried",
    "not_yet": "legal in the dialect, not built yet; the hint says what works today",
    "unsupported": "refused for good; the hint says what works instead",
    "external": "a server, the network or the disk is at fault; a job retries with growing pauses",
    "unreachable": "a server or the network does not answer; a job retries for as long as it takes",
    "busy": "the machine has too much to do; a job retries every few seconds",
    "waiting": "another job has to work first; the job waits for it, which is not a failure",
    "internal": "a bug of ours; please report it",
}
"""Kind of a condition → who is at fault, and whether a retry helps."""

HEADINGS: Mapping[str, str] = {
    "applications": "Applications",
    "syntax": "Statements and their text",
    "statements": "Statements that are refused whole",
    "project": "Projects and settings",
    "catalog": "Stores, relations and properties",
    "query": "Queries",
    "realtime": "Real-time mode",
    "state_store": "State on the heap or on disk",
    "patterns": "Patterns",
    "sets": "Set operations, ranks and OVER",
    "stores": "Looking at and writing into stores",
    "secret": "Secrets and updates",
    "cdc": "Changes of database tables",
    "files": "Files",
    "functions": "Functions of your own",
    "row_logs": "Rows left out, and their logs",
    "constraints": "Constraints",
    "constants": "Constants in expressions",
    "rows": "Totals, UNNEST and sub-selects as values",
    "registry": "Schema registries, descriptors and their formats",
    "spark": "Spark, Kafka and Kinesis while a job runs",
    "cluster": "Spark clusters",
    "compute_pools": "Compute pools",
    "runtime": "Jobs, engine and journal",
    "versions": "Versions and other names",
    "savepoints": "Savepoints, and checkpoints in a bucket",
    "backfill": "Backfills",
    "orchestration": "Dagster",
    "local": "Jars, Java and local servers",
    "testing": "SQL test cases",
    "command": "Commands",
}
"""File of :mod:`ds_dagster.conditions` → heading of its conditions."""

EXAMPLES = Path(__file__).with_name("examples.json")
"""Condition → a statement that raises it, with a caret below the place. ``scripts/generate_docs.py`` writes the file
from statements that the tests compile, so each is refused with its condition."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A condition with its explanation, as texts for people.

    Attributes:
        name: the condition.
        kind: key of :data:`KINDS`.
        meaning: who is at fault and whether a retry helps.
        topic: heading the condition is listed under.
        message: template of the message; ``{name}`` is replaced by a parameter of the failure.
        hint: template of what to do; empty for bugs.
        example: a statement that raises it; empty if a statement alone cannot raise it.
    """

    name: str
    kind: str
    meaning: str
    topic: str
    message: str
    hint: str
    example: str


def explained(name: str) -> Explained:
    """The explanation of one condition.

    Raises:
        KeyError: no condition has this name.
    """
    condition = CONDITIONS[name]
    meaning = KINDS[condition.kind]
    return Explained(
        name=name,
        kind=condition.kind,
        meaning=meaning[0].upper() + meaning[1:],
        topic=HEADINGS[topic_of(name)],
        message=render(condition.message, {}),
        hint=render(condition.hint, {}),
        example=examples().get(name, ""),
    )


@lru_cache(maxsize=1)
def _topics() -> Mapping[str, str]:
    return {c.name: topic.__name__.rpartition(".")[2] for topic in TOPICS for c in topic.CONDITIONS}


def topic_of(name: str) -> str:
    """Name of the file of :mod:`ds_dagster.conditions` that defines a condition.

    Raises:
        KeyError: no condition has this name.
    """
    return _topics()[name]


@lru_cache(maxsize=1)
def examples() -> Mapping[str, str]:
    """Condition → statement, for those a statement alone can raise."""
    loaded: dict[str, str] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return loaded
