"""Every condition reads the same from the journal, wherever it is shown, as where it was raised."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from ds_dagster.cli.commands.jobs import _job_json
from ds_dagster.cli.shell.describe import QUERY_FIELDS, event
from ds_dagster.conditions import CONDITIONS
from ds_dagster.errors import DsError, error
from ds_dagster.orchestration.events import transition_metadata
from ds_dagster.orchestration.health.checks import Job, check_running
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows, schema
from ds_dagster.runtime.journals.finite import failed
from ds_dagster.runtime.journals.records import JobRow, RequestRow, StatusRow, Transition
from ds_dagster.runtime.journals.told import TEXTS, told
from tests.test_envelope import parameters_of

NASTY = (
    "", "plain", "a\nb\t'c' \"d\" {e} [ds:INTERNAL] {\"a\": 1}", "ä漢\u2028\x00", "%s \\ $", 0, -1, 1.5, True, None,
    [], ["a", "b, c"], ("x", 1), [("a", "b")], frozenset({"only"}),
)  # fmt: skip


def keep(control: Control, failures: Mapping[str, DsError]) -> None:
    """Each as the status, the history and the run of a job that is called like its condition."""
    said = {name: told(failure) for name, failure in failures.items()}
    with control.journal.write() as connection:
        for table in (schema.JOBS, schema.STATUS, schema.TRANSITIONS, schema.REQUESTS):
            connection.execute(table.delete())
        for name in failures:
            rows.save_job(connection, JobRow(name, "t", "RUNNING", 1, "ensure", "", 1.0, "", "f", 1))
        rows.save_statuses(connection, [StatusRow(n, "FAILED", **told_) for n, told_ in said.items()], writer="")
        moved = [
            Transition(
                n, 1.0, "state", "RUNNING", "FAILED", **{k: v[k] for k in ("condition", "message", "parameters")}
            )
            for n, v in said.items()
        ]
        rows.add_transitions(connection, moved)
        for name, failure in failures.items():
            asked = RequestRow(0, name, "RUNNING", "", 1.0, "[]", 1.0, 2.0)
            rows.add_request(connection, failed(asked, failure, 2.0))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_every_condition_reads_the_same_everywhere(seed: int, control: Control) -> None:
    draw = Random(seed)
    failures = {n: DsError(n, {param: draw.choice(NASTY) for param in parameters_of(n)}) for n in sorted(CONDITIONS)}
    control.journal.create()
    keep(control, failures)
    with control.journal.read() as connection:
        histories = {name: rows.transitions(connection, name, 100) for name in failures}
        runs = {name: rows.result(row) for name in failures for row in rows.requests_of(connection, name, 20)}
    for status in control.statuses():
        raised = failures[status.name]
        assert (status.condition, status.message, status.hint) == (raised.condition, raised.message, raised.hint)
        assert _job_json(status)["reason"] == f"{raised.condition}: {raised.message}"
        assert {f: getattr(status, f) for f in ("message", "hint")} == {"message": raised.message, "hint": raised.hint}
        verdict = check_running(Job(status, None, 2.0))
        assert (verdict.reason, verdict.metadata["ds_dagster/condition"]) == (
            f"FAILED: {raised.message}",
            raised.condition,
        )
        assert verdict.metadata.get("ds_dagster/hint", "") == raised.hint
        (moved,) = histories[status.name]
        assert event(moved)["message"] == transition_metadata(moved)["ds_dagster/message"] == raised.message
        run = runs[status.name]
        assert run is not None
        assert (run.condition, run.message, run.hint) == (raised.condition, raised.message, raised.hint)
    assert {"condition", "message", "hint"} <= set(QUERY_FIELDS[""])


def test_the_journal_keeps_parameters_and_no_text(control: Control) -> None:
    control.journal.create()
    keep(control, {"JOB_UNKNOWN": error("JOB_UNKNOWN", name="a", nearest="b")})
    with control.journal.read() as connection:
        for table in (schema.STATUS, schema.TRANSITIONS, schema.REQUESTS):
            (row,) = connection.execute(table.select())
            assert row.parameters == '{"name": "a", "nearest": "b"}'
            assert all(row._mapping.get(column, "") == "" for column in TEXTS)


def test_texts_of_an_older_version_and_conditions_of_a_newer_one_are_shown_as_they_are(control: Control) -> None:
    control.journal.create()
    with control.journal.write() as connection:
        for name in ("older", "newer"):
            rows.save_job(connection, JobRow(name, "t", "RUNNING", 1, "ensure", "", 1.0, "", "f", 1))
        older = StatusRow("older", "FAILED", condition="JOB_UNKNOWN", message="as it was said", hint="do it")
        newer = StatusRow("newer", "FAILED", condition="NOT_KNOWN_YET", parameters='{"a": 1}')
        rows.save_statuses(connection, [older, newer], writer="")
    found = {status.name: (status.condition, status.message, status.hint) for status in control.statuses()}
    assert found["older"] == ("JOB_UNKNOWN", "as it was said", "do it")
    assert found["newer"] == ("NOT_KNOWN_YET", '{"a": 1}', "")


def test_secrets_are_in_no_parameter() -> None:
    said = told(
        error("JOB_UNKNOWN", name="hunter2", nearest="x", detail="with hunter2"), lambda t: t.replace("hunter2", "***")
    )
    assert "hunter2" not in str(said)
