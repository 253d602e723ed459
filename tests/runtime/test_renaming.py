"""A query with another name goes on with the job of its former one, wherever the engine is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ds_dagster.catalog.reading.slots import Slot, default_slot
from ds_dagster.cli import slots
from ds_dagster.errors import DsError, UserError, error
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.changes import recompiled, why_not_over
from ds_dagster.runtime.deciding.permissions import action_for
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.planning.planned import PlannedChange, planned_changes
from ds_dagster.runtime.planning.running import Running
from ds_dagster.runtime.status import RESTORED, Change, JobStatus
from ds_dagster.runtime.versioning import Versions
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock
from tests.runtime.test_reconcile import House

SOURCES = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM a (k INTEGER, n INTEGER) WITH ('topic' = 'a', 'value.format' = 'json');
"""
TAG = "-- @renamed_from {}\n"
STREAM = "CREATE STREAM {} WITH ('topic' = 't') AS SELECT k, n FROM a;\n"
BARE = "CREATE STREAM {} AS SELECT k, n FROM a;\n"
VIEW = "CREATE MATERIALIZED VIEW {} AS SELECT k, COUNT(*) AS c FROM a GROUP BY k;\n"
TARGET = "CREATE STREAM s (k INTEGER, n INTEGER) WITH ('topic' = 's', 'value.format' = 'json');\n"
INSERT = "INSERT INTO s SELECT k, n FROM a QUERY WITH ('query.name' = '{}');\n"
READER = "CREATE CHANGELOG c AS SELECT k, COUNT(*) AS c FROM {} GROUP BY k;\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path, sql=tmp_path / "sql", state=tmp_path / ".ds", store="m")


@pytest.fixture
def house(settings: Settings, clock: FakeClock) -> Iterator[House]:
    control = Control.open(settings, clock=clock, environment={})
    made = House(control, clock, settings)
    yield made
    made.lock.release()
    control.journal.close()


def compiled(settings: Settings, sql: str) -> LoadedProject:
    project = compile_texts([("sql/a.sql", SOURCES + sql)], settings)
    assert not project.errors, [problem.text() for problem in project.errors]
    return project


def started(house: House, sql: str, *names: str) -> None:
    """Each has finished batch 7 and is at batch 8."""
    house.control.ensure(compiled(house.settings, sql), names, requested_by="ann")
    house.tick()
    for name in names:
        house.host.works(name, batch=7)
    house.tick(seconds=2)


def change(house: House, sql: str, name: str = "new") -> Change:
    return house.control.changes(compiled(house.settings, sql), [name])[0]


def renamed(house: House, sql: str, action: str = "restart") -> int:
    return house.control.ensure(compiled(house.settings, sql), ["new"], action, "bob")[0].generation  # type: ignore[arg-type]


def drive(house: House, *, kill_after: int | None = None, most: int = 20) -> None:
    """Tick until the new name is started, doing errands; kill the engine after so many ticks."""
    for number in range(most):
        if any(order.name == "new" for order in house.host.orders):
            return
        house.tick()
        if house.host.under_way and number != kill_after:
            errand = house.host.does()
            assert (errand.kind, errand.order.spec.name) == ("rename", "new")
            assert errand.serving is not None and errand.serving.spec.name == "old"
        if number == kill_after:
            house.begin()
    raise AssertionError("the change of name does not end")


DEFINITIONS = {"stream": STREAM, "view": VIEW, "insert": TARGET + INSERT}


@pytest.mark.sweep
@pytest.mark.parametrize("kind", DEFINITIONS)
@pytest.mark.parametrize("kill_after", [None, *range(6)])
def test_the_job_goes_on_under_its_new_name_wherever_the_engine_is_killed(
    house: House, kind: str, kill_after: int | None
) -> None:
    before, after = (DEFINITIONS[kind].format(name) for name in ("old", "new"))
    after = after.replace("INSERT", TAG.format("old") + "INSERT") if kind == "insert" else TAG.format("old") + after
    started(house, before, "old")
    identity = house.host.orders[-1].identity
    assert change(house, after).verdict == "renamed"
    generation = renamed(house, after)
    drive(house, kill_after=kill_after)
    order = next(order for order in house.host.orders if order.name == "new")
    assert (order.identity, order.checkpoint_name, order.started, order.progressed) == (identity, "old", True, True)
    house.host.works("new", batch=8)
    house.tick(seconds=2)
    assert house.control.wait(["new"], {"new": generation}, 0)[0].state == "RUNNING"
    assert [(s.name, s.state, s.batch) for s in house.control.statuses()] == [("new", "RUNNING", 8)]
    assert change(house, after).verdict == "unchanged"
    assert not house.control.transitions("old")
    reasons = [moved.reason for moved in house.control.transitions("new")]
    assert "renamed from old" in reasons and any("ann" in reason for reason in reasons)


def test_a_running_query_is_not_stopped_without_consent(house: House) -> None:
    started(house, STREAM.format("old"), "old")
    after = TAG.format("old") + STREAM.format("new")
    with pytest.raises(UserError) as refused:
        renamed(house, after, "ensure")
    assert refused.value.condition == "DEFINITION_CHANGED" and "former name" in refused.value.hint
    assert [status.name for status in house.control.statuses()] == ["old"]
    assert action_for(change(house, after), ["restart"]) == ("restart", ())
    assert action_for(change(house, after), ["reset"]) == ("ensure", ())


def test_one_that_is_stopped_gets_its_name_without_consent_and_before_it_runs(house: House) -> None:
    started(house, STREAM.format("old"), "old")
    house.control.stop(["old"])
    house.tick(times=3)
    renamed(house, TAG.format("old") + STREAM.format("new"), "ensure")
    drive(house)
    assert [order.name for order in house.host.orders] == ["old", "new"]


def test_a_request_that_is_repeated_is_the_same(house: House) -> None:
    started(house, STREAM.format("old"), "old")
    after = TAG.format("old") + STREAM.format("new")
    first = renamed(house, after)
    assert renamed(house, after) == renamed(house, after, "ensure") == first
    changed = renamed(house, after.replace("FROM a", "FROM a WHERE k > 1"))
    assert changed == first + 1
    drive(house)
    assert "WHERE k > 1" in house.host.orders[-1].spec.slice[-1].text


def test_stop_gives_the_change_of_name_up(house: House) -> None:
    started(house, STREAM.format("old"), "old")
    renamed(house, TAG.format("old") + STREAM.format("new"))
    assert house.control.stop(["old"])[0].outcome == "stopped"
    house.tick(times=5)
    assert [(s.name, s.state) for s in house.control.statuses()] == [("old", "STOPPED")]
    assert not house.host.under_way


def test_a_store_that_fails_is_tried_again_and_says_why(house: House) -> None:
    started(house, VIEW.format("old"), "old")
    renamed(house, TAG.format("old") + VIEW.format("new"))
    house.tick(times=3)
    house.host.does(error("RENAME_TARGET_TAKEN", former="old", name="new"))
    house.tick()
    assert house.control.status("old").condition == "RENAME_TARGET_TAKEN"
    assert not house.host.under_way
    house.tick(seconds=120)
    house.tick()
    assert house.host.under_way
    drive(house)


def test_the_identity_is_never_given_to_another_job(house: House) -> None:
    """``old`` becomes ``new``, and then there is another ``old``."""
    started(house, STREAM.format("old"), "old")
    after = TAG.format("old") + STREAM.format("new")
    renamed(house, after)
    drive(house)
    both = STREAM.format("new") + VIEW.format("old")
    started(house, both, "old")
    order = house.host.orders[-1]
    assert (order.name, order.checkpoint_name, order.progressed) == ("old", "old~2", False)
    assert {s.job_id.rpartition(".")[2] for s in house.control.statuses()} == {"old", "old-7e2"}
    assert not house.control.orphans(compiled(house.settings, both))


def test_a_name_that_comes_back_has_its_own_identity(house: House) -> None:
    started(house, STREAM.format("old"), "old")
    renamed(house, TAG.format("old") + STREAM.format("new"))
    drive(house)
    house.host.works("new", batch=8)
    house.tick(seconds=2)
    back = TAG.format("new") + STREAM.format("old")
    house.control.ensure(compiled(house.settings, back), ["old"], "restart")
    house.tick(times=3)
    house.host.does()
    house.tick(times=2)
    assert (house.host.orders[-1].name, house.host.orders[-1].checkpoint_name) == ("old", "old")
    with house.control.journal.read() as connection:
        assert not connection.exec_driver_sql("SELECT identity FROM ds_jobs").scalar_one()


REFUSED = {
    "topic": (BARE.format("old"), BARE.format("new"), "'topic' = 'old'"),
    "kind": (STREAM.format("old"), VIEW.format("new"), "stateful|kind|aggregates|columns|view"),
    "state": (VIEW.format("old"), VIEW.format("new").replace("FROM a", "FROM a WHERE n > 1"), "computes something"),
    "log": (
        VIEW.format("old").replace(";", " QUERY WITH ('row.error.handling' = 'IGNORE_AND_LOG');"),
        VIEW.format("new").replace(";", " QUERY WITH ('row.error.handling' = 'IGNORE_AND_LOG');"),
        "row log",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_checkpoint_or_the_store_does_not_hold_is_refused(house: House, case: str) -> None:
    before, after, words = REFUSED[case]
    started(house, before, "old")
    verdict = change(house, TAG.format("old") + after)
    assert verdict.verdict == "rename_refused"
    with pytest.raises(UserError, match=words) as refused:
        renamed(house, TAG.format("old") + after)
    assert refused.value.condition == "RENAME_REFUSED"
    assert [(s.name, s.desired) for s in house.control.statuses()] == [("old", "RUNNING")]


def test_versions_beside_it_are_handed_over_first(house: House) -> None:
    started(house, VIEW.format("old"), "old")
    versions = Versions(house.control, "ann")
    versions.stage(compiled(house.settings, VIEW.format("old").replace("FROM a", "FROM a WHERE n > 1")), "old")
    assert "old@2" in change(house, TAG.format("old") + VIEW.format("new")).rule


def test_a_change_that_keeps_the_checkpoint_comes_along_and_a_reset_does_not(house: House) -> None:
    started(house, STREAM.format("old"), "old")
    after = TAG.format("old") + STREAM.format("new").replace("FROM a", "FROM a WHERE k > 1")
    with pytest.raises(DsError, match="rename it first"):
        renamed(house, after, "reset")
    renamed(house, after)
    drive(house)


def test_readers_go_on_with_the_topic(house: House) -> None:
    before = STREAM.format("old") + READER.format("old")
    after = TAG.format("old") + STREAM.format("new") + READER.format("new")
    started(house, before, "old", "c")
    assert change(house, after, "c").verdict == "unchanged"
    renamed(house, after)
    drive(house)
    house.control.ensure(compiled(house.settings, after), ["c"], "restart")
    house.tick(times=3)
    spec = next(order.spec for order in reversed(house.host.orders) if order.name == "c")
    assert spec.source_names == (("default.public.new", "default_public_old"),)


def lines(house: House, sql: str, running: Running | None = None) -> dict[str, PlannedChange]:
    running = house.control.running() if running is None else running
    return {line.change.name: line for line in planned_changes(compiled(house.settings, sql), running)}


def test_the_plan_says_renamed_and_names_no_orphan(house: House, tmp_path: Path) -> None:
    started(house, STREAM.format("old"), "old")
    after = TAG.format("old") + STREAM.format("new")
    saved = tmp_path / "state.json"
    saved.write_text(house.control.running().to_json())
    for running in (None, Running.from_file(saved)):
        planned = lines(house, after, running)
        assert set(planned) == {"new"}
        line = planned["new"]
        assert (line.change.verdict, line.renamed_from, line.state) == ("renamed", "old", "RUNNING")
        assert line.waits and not line.creates and not line.columns
        assert [text for text in line.sql if text[0] in "+-"] == [
            "-CREATE STREAM old WITH ('topic' = 't') AS SELECT k, n FROM a;",
            "+CREATE STREAM new WITH ('topic' = 't') AS SELECT k, n FROM a;",
        ]
    assert not house.control.orphans(compiled(house.settings, after))


def test_without_the_line_the_plan_shows_an_orphan_and_the_line_to_write(house: House) -> None:
    started(house, STREAM.format("old"), "old")
    planned = lines(house, STREAM.format("new"))
    assert (planned["new"].change.verdict, planned["old"].change.verdict) == ("new", "orphan")
    assert planned["new"].change.written_by == "old"
    assert "-- @renamed_from old" in planned["new"].change.hint


def test_a_line_whose_job_is_gone_or_whose_query_has_its_own_job_has_no_effect(house: House) -> None:
    new = STREAM.format("new").replace("'t'", "'u'")
    after = TAG.format("old") + new
    assert change(house, after).verdict == "new"
    started(house, STREAM.format("old"), "old")
    started(house, new, "new")
    assert change(house, after).verdict == "unchanged"
    orphans: list[JobStatus] = list(house.control.orphans(compiled(house.settings, after)))
    assert [status.name for status in orphans] == ["old"]


def under_way(house: House) -> None:
    """The engine gives the table its new name at this moment, or has done so already."""
    started(house, VIEW.format("old"), "old")
    renamed(house, TAG.format("old") + VIEW.format("new"))
    house.tick(times=4)
    assert house.host.under_way


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_stop_while_the_table_gets_its_name_ends_it_first(house: House, is_killed: bool) -> None:
    """The table may have its new name: under the old one the query would go on over an empty table."""
    under_way(house)
    assert house.control.stop(["old"])[0].outcome == "stopped"
    house.host.does()
    if is_killed:
        house.begin()
    for _ in range(6):
        house.tick()
        if house.host.under_way:
            house.host.does()
    assert [(s.name, s.desired, s.state) for s in house.control.statuses()] == [("new", "STOPPED", "STOPPED")]
    assert "new" not in [order.name for order in house.host.orders]


def test_a_stop_goes_on_to_the_new_name_unless_it_is_asked_for_again(house: House) -> None:
    under_way(house)
    house.control.stop(["old"])
    renamed(house, TAG.format("old") + VIEW.format("new"))
    drive(house)
    assert [(s.name, s.desired) for s in house.control.statuses()] == [("new", "RUNNING")]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_stop_gives_up_what_the_store_has_refused(house: House, is_stopped: bool) -> None:
    under_way(house)
    if is_stopped:
        house.control.stop(["old"])
    for _ in range(4):
        if house.host.under_way:
            house.host.does(error("RENAME_TARGET_TAKEN", former="old", name="new"))
        house.tick()
    house.control.stop(["old"])
    house.tick(seconds=120)
    house.tick(times=3)
    assert not house.host.under_way
    assert [(s.name, s.desired) for s in house.control.statuses()] == [("old", "STOPPED")]
    house.control.ensure(compiled(house.settings, VIEW.format("old")), ["old"])
    house.tick(times=2)
    assert house.host.orders[-1].name == "old"


def test_a_reset_onto_the_checkpoint_of_a_savepoint_goes_on_as_its_definition_did(house: House) -> None:
    """The relation it reads has another name since, and it shows less of its groups."""
    reader = "CREATE CHANGELOG c AS SELECT k, COUNT(*) AS c, SUM(n) AS t FROM {} GROUP BY k;\n"
    started(house, STREAM.format("old") + reader.format("old"), "old", "c")
    saved = JobSpec.from_json(house.control.running().jobs["c"].spec)
    for text in (STREAM.format("new") + reader.format("new"), STREAM.format("new") + READER.format("new")):
        project = compiled(house.settings, text)
        assert not why_not_over(project, project.queries["c"], saved)
        house.control.ensure(project, ["c"], "reset", allow=(RESTORED,), made_by=saved)
        spec = JobSpec.from_json(house.control.running().jobs["c"].spec)
        assert spec.source_names == (("default.public.new", "default_public_old"),)
        assert recompiled(spec, house.settings)[1].keeps_state_of(saved.state_signature)
        assert house.control.changes(project, ["c"])[0].verdict == "unchanged"
    other = compiled(house.settings, STREAM.format("new") + READER.format("new").replace("GROUP", "WHERE n > 1 GROUP"))
    assert "another state" in why_not_over(other, other.queries["c"], saved)


OTHERS = {
    "the old name": (VIEW.format("old"), "old", "restart"),
    "another name": (TAG.format("old") + VIEW.format("newer"), "newer", "restart"),
    "another definition": (TAG.format("old") + VIEW.format("new").replace("(*)", "(*) + 1"), "new", "restart"),
    "a new job": (VIEW.format("new"), "new", "ensure"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_nothing_else_is_made_of_it_meanwhile(house: House, case: str) -> None:
    sql, name, action = OTHERS[case]
    under_way(house)
    with pytest.raises(UserError, match="is being renamed to new") as refused:
        house.control.ensure(compiled(house.settings, sql), [name], action, "eve")  # type: ignore[arg-type]
    assert refused.value.condition == "RENAME_UNDERWAY"
    drive(house)
    assert [status.name for status in house.control.statuses()] == ["new"]


def test_a_name_that_a_job_is_about_to_get_is_taken(house: House) -> None:
    started(house, VIEW.format("old") + STREAM.format("more"), "old", "more")
    renamed(house, TAG.format("old") + VIEW.format("new"))
    for sql in (VIEW.format("new"), TAG.format("more") + STREAM.format("new")):
        with pytest.raises(UserError) as refused:
            renamed(house, sql)
        assert refused.value.condition == "RENAME_UNDERWAY"
    drive(house)


def test_no_version_is_built_beside_a_query_that_gets_another_name(house: House) -> None:
    started(house, VIEW.format("old"), "old")
    renamed(house, TAG.format("old") + VIEW.format("new"))
    with pytest.raises(UserError) as refused:
        other = VIEW.format("old").replace("FROM a", "FROM a WHERE n > 1")
        Versions(house.control, "ann").stage(compiled(house.settings, other), "old")
    assert refused.value.condition == "RENAME_UNDERWAY"


def left_over(house: House, project: LoadedProject, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Of replication slots with these names, those that ``ds gc`` would drop."""
    made = [Slot("m", "host:5432", name, "postgres", False, 0, "reserved") for name in names]
    monkeypatch.setattr(slots, "_found", lambda *_: made)
    return [slot.name for slot in slots.left_over(project, house.control)]


@pytest.mark.parametrize("action", ["", "stop"])
def test_the_slot_of_a_renamed_query_is_not_left_over(
    house: House, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """It is named after the identity that the query keeps, whatever the query is called."""
    started(house, STREAM.format("old"), "old")
    identity = house.host.orders[-1].identity.job
    after = TAG.format("old") + STREAM.format("new")
    today = compiled(house.settings, after)
    (scan,) = today.queries["new"].scans
    slot, gone = default_slot(identity, scan.source_name), default_slot(f"{identity}_", scan.source_name)
    if action:
        house.control.stop(["old"])
    assert left_over(house, today, monkeypatch, slot, gone) == [gone], "before it has its new name"
    renamed(house, after)
    assert left_over(house, today, monkeypatch, slot, gone) == [gone]
    drive(house)
    if action:
        house.control.stop(["new"])
    assert left_over(house, today, monkeypatch, slot, gone) == [gone]


def test_the_slot_of_a_definition_that_runs_is_not_left_over(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Today's statement reads another source, and was not applied."""
    started(house, STREAM.format("old"), "old")
    identity = house.host.orders[-1].identity.job
    (scan,) = compiled(house.settings, STREAM.format("old")).queries["old"].scans
    other = "CREATE STREAM b (k INTEGER, n INTEGER) WITH ('topic' = 'b', 'value.format' = 'json');\n"
    today = compiled(house.settings, other + STREAM.format("old").replace("FROM a", "FROM b"))
    slot = default_slot(identity, scan.source_name)
    assert left_over(house, today, monkeypatch, slot) == []
