"""What is offered for a job whose checkpoint and sink disagree."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip, ends_text
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.deciding.repair import SinkEnd, from_sink, needs_its_checkpoint, ways
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
    assert "m.copy stay and come twice" in found[-1].does


def end(entity: str, batch: int = 7, offsets: str = '[{"t":{"0":4}}]') -> SinkEnd:
    digest = hashlib.sha256(offsets.encode()).hexdigest()
    return SinkEnd(entity, Tip(batch, digest, ends_text(offsets, "{}")))


def test_a_query_without_state_goes_on_from_its_sink(project: LoadedProject) -> None:
    found = from_sink(project.queries["copy"], [end("m.copy")])
    assert found.tip == end("m.copy").tip
    first = ways(status("copy", "CHECKPOINT_MISSING"), project.queries["copy"], found)[0]
    assert (first.name, first.exact, first.command) == ("from-sink", True, "ds repair copy --from-sink")
    assert "batch 7, where m.copy ends" in first.does


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([SinkEnd("m.copy")], "has no batch of this checkpoint version"),
        ([SinkEnd("m.copy", Tip(7, "aa"))], "keeps no offsets (batch 7)"),
        ([SinkEnd("m.copy", unknown="m.copy keeps no ledger")], "m.copy keeps no ledger"),
        ([end("m.copy"), end("m.other", 6)], "do not end at one batch: m.copy at batch 7, m.other at batch 6"),
        ([end("m.copy"), end("m.other", 7, '[{"t":{"0":5}}]')], "do not end at one batch"),
    ],
)
def test_what_is_not_exact_is_told_with_its_reason(project: LoadedProject, ends: list[SinkEnd], reason: str) -> None:
    found = from_sink(project.queries["copy"], ends)
    assert found.tip is None and reason in found.reason
    way = ways(status("copy", "CHECKPOINT_MISSING"), project.queries["copy"], found)[0]
    assert not way.exact and reason in way.does and not way.command


def test_state_is_in_the_checkpoint_alone(project: LoadedProject) -> None:
    found = from_sink(project.queries["v"], [end("m.v")])
    assert found.tip is None and "keeps state that only its checkpoint has (" in found.reason
    assert not needs_its_checkpoint(project.queries["copy"])


@pytest.mark.parametrize(
    "given", [status("v", "TARGET_REJECTS_ROWS"), status("v", "TARGET_GONE", "RUNNING"), status("v", "", "STOPPED")]
)
def test_nothing_is_offered_for_another_condition(project: LoadedProject, given: JobStatus) -> None:
    assert ways(given, project.queries["v"]) == ()
