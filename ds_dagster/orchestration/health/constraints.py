"""Checks of constraints: how many rows of a relation violate a constraint, counted by the jobs that check it."""

from collections.abc import Sequence

import dagster as dg

from ds_dagster.orchestration.events import PREFIX
from ds_dagster.orchestration.health.verdict import ERROR, WARN, Verdict
from ds_dagster.runtime.journals.told import failure_of
from ds_dagster.runtime.status import JobStatus
from ds_dagster.sql.statements import ConstraintDefinition

VIOLATED = "CONSTRAINT_VIOLATED"
FAILURES = frozenset({VIOLATED, "CONSTRAINT_VIOLATED_BY_GROUP"})
COUNTING = frozenset({"RUNNING", "FINISHED"})
"""States in which the counts of a job are current; in other states they are from an incarnation that ended."""


def check_constraint(relation: str, constraint: ConstraintDefinition, statuses: Sequence[JobStatus]) -> Verdict:
    """No row has violated the constraint since the queries started. ON VIOLATION FAIL is an error, any other a warning.

    Args:
        relation: qualified name.
        constraint: of the relation.
        statuses: of the jobs that check it. Each job counts by itself: a row that two jobs read counts twice.
    """
    severity = ERROR if constraint.on_violation == "fail" else WARN
    failed = next((status for status in statuses if _failed_by(status, relation, constraint.name)), None)
    if failed is not None:
        return Verdict(False, f"{failed.name} ended: {failed.message}", ERROR, VIOLATED)
    label = f"{relation}.{constraint.name}"
    reported = {status.name: (status.violations or {}).get(label) for status in statuses if status.state in COUNTING}
    counts = {name: count for name, count in reported.items() if count}
    if not counts:
        return Verdict(True, "no row violates it" if statuses else "never started", severity)
    rows = ", ".join(f"{count['rows']:,} in {name}" for name, count in counts.items())
    reason = f"rows that violate it since the start ({constraint.on_violation}): {rows}"
    samples = {name: count["sample"] for name, count in counts.items() if "sample" in count}
    metadata = {
        f"{PREFIX}/violations": sum(count["rows"] for count in counts.values()),
        **({f"{PREFIX}/samples": dg.MetadataValue.json(samples)} if samples else {}),
    }
    return Verdict(False, reason, severity, VIOLATED, metadata)


def _failed_by(status: JobStatus, relation: str, constraint: str) -> bool:
    """Whether a job does not run because of this constraint."""
    if status.condition not in FAILURES or status.state in COUNTING:
        return False
    failure = failure_of(status.condition, status.parameters)
    return failure is not None and [failure.params.get(n) for n in ("relation", "constraint")] == [relation, constraint]
