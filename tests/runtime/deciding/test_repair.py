"""What is offered for a job whose checkpoint and sink disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.deciding.from_sink import FromSink
from ds_dagster.runtime.deciding.repair import ways
from ds_dagster.runtime.journals.states import JobState
from ds_dagster.runtime.status import JobStatus
from ds_dagster.settings import Settings

SQL = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM s (id BIGINT) WITH ('store' = 'm', 'value.format' = 'json');
CREATE STREAM copy AS SELECT id FROM s;
CREATE MATERIALIZED VIEW v AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    folder: Path = tmp_path_factory.mktemp("repair")
    made = compile_texts([("a.sql", SQL)], Settings(root=folder, sql=folder, state=folder, store="m"))
    assert not made.errors
    return made


def status(name: str, condition: str, state: JobState = "FAILED") -> JobStatus:
    return JobStatus(name, "id", f"db.public.{name}", state, "RUNNING", condition=condition)


@pytest.mark.parametrize(
    ("condition", "by_hand"),
    [
        ("CHECKPOINT_BEHIND_SINK", "restore-checkpoint"),
        ("SINK_BEHIND_CHECKPOINT", "restore-sink"),
        ("TARGET_GONE", "restore-sink"),
        ("CHECKPOINT_MISSING", "restore-checkpoint"),
    ],
)
def test_a_view_is_reset_exactly_and_a_stream_is_not(project: LoadedProject, condition: str, by_hand: str) -> None:
    for name, exact in (("v", True), ("copy", False)):
        found = ways(status(name, condition), project.queries[name])
        assert [(way.name, way.exact) for way in found] == [(by_hand, True), ("reset", exact)]
    assert "m.copy stay, and are written a second time" in found[-1].does


def test_going_on_from_the_sink_comes_first(project: LoadedProject) -> None:
    query = project.queries["copy"]
    first = ways(status("copy", "CHECKPOINT_MISSING"), query, FromSink(Tip(7), entities="m.copy"))[0]
    assert (first.name, first.exact, first.command) == ("from-sink", True, "ds repair copy --from-sink")
    assert "batch 7, where m.copy ends" in first.does
    refused = ways(status("copy", "CHECKPOINT_MISSING"), query, FromSink(reason="of this"))[0]
    assert (refused.exact, refused.does, refused.command) == (False, "not possible: of this", "")


@pytest.mark.parametrize(
    "given", [status("v", "TARGET_REJECTS_ROWS"), status("v", "TARGET_GONE", "RUNNING"), status("v", "", "STOPPED")]
)
def test_nothing_is_offered_for_another_condition(project: LoadedProject, given: JobStatus) -> None:
    assert ways(given, project.queries["v"]) == ()
