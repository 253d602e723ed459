"""Checks of constraints: rows of a relation that violate one, as the jobs count them that check it."""

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
"""States of jobs whose counts are those of the relation; others have the counts of an incarnation that is over."""


def check_constraint(relation: str, constraint: ConstraintDefinition, statuses: Sequence[JobStatus]) -> Verdict:
    """No row violates it since the queries started. ON VIOLATION FAIL is an error, everything else a warning.

    Args:
        relation: qualified name.
        constraint: of the relation.
        statuses: of the jobs that check it, each for itself: a row that two of them read is counted by both.
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
