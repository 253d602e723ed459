"""What a request to pass a record leads to, what is refused, and what the journal keeps of it."""

from __future__ import annotations

import pytest

from ds_dagster.catalog.reading.skip import SkippedRecord, skips_of
from ds_dagster.errors import UserError, error
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.desired import Request
from ds_dagster.runtime.deciding.skipping import skip
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import JobRow, StatusRow
from ds_dagster.runtime.journals.told import told
from ds_dagster.runtime.status import Ensured
from ds_dagster.settings import Settings
from tests.runtime.fakes import engine_says, project, query

BAD = error("BAD_RECORD", entity="k.clicks", relation="clicks", partition="0", position="7", reason="broken", job="a")


@pytest.fixture
def failed(control: Control, settings: Settings) -> Control:
    control.ensure(project(settings, query("a", "t")), ["a"])
    engine_says(control, StatusRow("a", "FAILED", generation=1, checkpoint_version=1, batch=3, **told(BAD)))
    return control


def job(control: Control) -> JobRow:
    with control.journal.read() as connection:
        return rows.jobs(connection)["a"]


def test_the_record_it_fails_at_is_passed_with_the_checkpoint_kept(failed: Control) -> None:
    assert "`ds skip a --partition 0 --offset '7'`" in failed.status("a").hint
    assert skip(failed, "a", "0", "7", requested_by="ann", reason="ticket 7") == Ensured("a", "requested", 2)
    row = job(failed)
    assert (row.desired, row.checkpoint_version, row.action) == ("RUNNING", 1, "skip")
    assert skips_of(row.skips) == (SkippedRecord("k.clicks", "0", "7", "passed by ann: ticket 7"),)
    moved = failed.transitions("a")[0]
    assert (moved.kind, moved.actor) == ("desired", "ann")
    assert moved.reason == "skip of record 7 of partition 0 of k.clicks: ticket 7"
    assert skip(failed, "a", "0", "7", requested_by="bob") == Ensured("a", "nothing", 2)
    assert job(failed) == row


@pytest.mark.parametrize(("partition", "position"), [("0", "8"), ("1", "7"), ("0", "07")])
def test_another_record_is_refused_with_the_command_that_works(failed: Control, partition: str, position: str) -> None:
    before = job(failed)
    with pytest.raises(UserError) as refused:
        skip(failed, "a", partition, position)
    assert refused.value.condition == "SKIP_OTHER_RECORD"
    assert "`ds skip a --partition 0 --offset '7'`" in refused.value.hint
    assert job(failed) == before


def test_a_job_that_does_not_fail_at_a_record_passes_none(control: Control, settings: Settings) -> None:
    control.ensure(project(settings, query("a", "t")), ["a"])
    for status in (StatusRow("a", "RUNNING"), StatusRow("a", "FAILED", **told(error("INPUT_GONE", entities="k.c")))):
        engine_says(control, status)
        with pytest.raises(UserError) as refused:
            skip(control, "a", "0", "7")
        assert refused.value.condition == "SKIP_WITHOUT_RECORD"
    with pytest.raises(UserError) as unknown:
        skip(control, "b", "0", "7")
    assert unknown.value.condition == "JOB_UNKNOWN"


def test_a_restart_keeps_what_is_passed_and_a_reset_does_not(
    failed: Control, settings: Settings, verdicts: dict[str, str]
) -> None:
    verdicts["a"] = "keeps_checkpoint"
    skip(failed, "a", "0", "7")
    failed.ensure(project(settings, query("a", "t", "2")), ["a"], "restart")
    assert len(skips_of(job(failed).skips)) == 1
    failed.stop(["a"])
    assert len(skips_of(job(failed).skips)) == 1
    failed.ensure(project(settings, query("a", "t", "2")), ["a"], "reset", allow=["duplicates"])
    assert (job(failed).skips, job(failed).begins, job(failed).checkpoint_version) == ("", "", 2)


def test_how_a_reset_begins_holds_until_the_next_one() -> None:
    assert Request("reset", "ann", ["from_now", "duplicates", "empty"]).begins == "empty,from_now"
    assert Request("ensure", "ann", ["from_now"]).begins == ""
