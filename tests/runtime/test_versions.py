"""Hand-overs on a host and a clock that do as they are told: the engine is killed after every step, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.runtime import versioning
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.runtime.versioning import Versions
from ds_dagster.runtime.views import progress_of
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, project, query
from tests.runtime.test_reconcile import House


class Stores:
    """What has the public name, and what is beside it: names of jobs by version; as idempotent as a store has to be."""

    def __init__(self) -> None:
        self.public, self.beside = 1, {2}

    def serve(self, former: int, version: int) -> None:
        if version in self.beside:
            self.beside = self.beside - {version} | {self.public}
            assert self.public == former
            self.public = version


@pytest.fixture
def in_turn() -> bool:
    """Whether the versions write one stream."""
    return False


@pytest.fixture
def house(
    control: Control, clock: FakeClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, in_turn: bool
) -> Iterator[House]:
    monkeypatch.setattr("ds_dagster.runtime.deciding.spec.is_written_in_turn", lambda _: in_turn)
    monkeypatch.setattr(versioning, "why_not_beside", lambda *_: "")
    monkeypatch.setattr(versioning, "definition_of", lambda *_: None)
    monkeypatch.setattr(versioning, "breaking_changes", lambda *_: ())
    house = House(control, clock, settings)
    house.run("v")
    yield house
    house.lock.release()


def changed(meaning: str = "2") -> BoundQuery:
    return query("v", "t", meaning)


def staged(house: House, meaning: str = "2") -> Versions:
    versions = Versions(house.control, "ann")
    versions.stage(project(house.settings, changed(meaning)), "v")
    house.tick()
    return versions


def shown(house: House) -> list[tuple[str, str, str]]:
    return [(s.name, s.role, s.state) for s in house.control.statuses()]


def works(house: House) -> None:
    """All queries run, and have read what exists now."""
    for name in [name for name, job in house.host.seen.items() if job.phase in ("starting", "running")]:
        house.host.works(name, caught_up=house.clock.now())


def drive(house: House, stores: Stores, *, kill_after: int | None = None, most: int = 40) -> int:
    """Tick until nothing takes over any more, doing errands; kill the engine after so many ticks. Returns the ticks."""
    for number in range(most):
        if not any(status.role == "promoting" for status in house.control.statuses()):
            return number
        works(house)
        house.tick()
        if house.host.under_way and number != kill_after:
            errand = house.host.does()
            stores.serve(errand.former, errand.order.place)
        if number == kill_after:
            if house.host.under_way:  # the store has changed its names, and nobody heard of it
                errand = house.host.under_way[0]
                stores.serve(errand.former, errand.order.place)
            house.begin()
    raise AssertionError("the hand-over does not end")


def test_a_staged_version_runs_beside_with_its_own_checkpoint_and_place(house: House) -> None:
    staged(house)
    order = house.host.orders[-1]
    assert (order.name, order.checkpoint_name, order.place, order.checkpoint_version) == ("v@2", "v@2", 2, 1)
    assert order.identity.job.endswith(".v-402")
    assert (order.started, order.progressed) == (False, False)
    assert [o.place for o in house.host.orders if o.name == "v"] == [0]
    assert shown(house) == [("v", "serving", "RUNNING"), ("v@2", "staged", "STARTING")]


@pytest.mark.sweep
@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("kill_after", [None, *range(12)])
def test_a_hand_over_ends_wherever_the_engine_is_killed(house: House, kill_after: int | None) -> None:
    versions, stores = staged(house), Stores()
    versions.promote("v")
    drive(house, stores, kill_after=kill_after)
    assert (stores.public, stores.beside) == (2, {1})
    works(house)
    house.tick(times=2)
    order = house.host.orders[-1]
    assert (order.name, order.checkpoint_name, order.place, order.started, order.progressed) == (
        "v", "v@2", 0, True, True
    )  # fmt: skip
    assert shown(house)[1] == ("v@1", "kept", "STOPPED")
    assert house.control.status("v").version == 2
    versions.rollback("v")
    drive(house, stores, kill_after=kill_after)
    assert (stores.public, stores.beside) == (1, {2})
    house.tick()
    order = house.host.orders[-1]
    assert (order.name, order.checkpoint_name, order.place) == ("v", "v", 0)
    assert [(s.name, s.role) for s in house.control.statuses()] == [("v", "serving"), ("v@2", "kept")]


def kill_between(house: House) -> None:
    """The engine is killed when the new version has stopped, and begins again; queries do not work yet."""
    staged(house).promote("v")
    while house.control.status("v@2").state != "STOPPED":
        works(house)
        house.tick()
    house.begin()
    house.tick(times=3)


@pytest.mark.parametrize("in_turn", [True])
def test_the_serving_version_ends_behind_the_new_one_also_after_a_kill(house: House) -> None:
    """Killed when the new version has stopped, it starts from its last batch: the new version may have read more."""
    kill_between(house)
    assert [(s.name, s.desired, s.state) for s in house.control.statuses()] == [
        ("v", "RUNNING", "STARTING"),
        ("v@2", "STOPPED", "STOPPED"),
    ]
    drive(house, stores := Stores())
    assert stores.public == 2


@pytest.mark.parametrize("in_turn", [True])
def test_a_serving_version_that_does_not_come_up_is_waited_for_two_minutes(house: House) -> None:
    kill_between(house)
    house.tick(121.0)
    house.tick()
    assert house.control.status("v").desired == "STOPPED"


def test_a_command_that_was_interrupted_is_repeated_while_the_public_name_changes(house: House) -> None:
    versions, stores = staged(house), Stores()
    versions.promote("v")
    while not house.host.under_way:
        works(house)
        house.tick()
    errand = house.host.under_way[0]
    stores.serve(errand.former, errand.order.place)  # the engine has not heard of it
    staged(house)
    assert versions.promote("v") == "v@2"
    drive(house, stores)
    assert (stores.public, house.control.status("v").version) == (2, 2)


def test_a_rollback_that_did_not_take_over_does_not_change_which_version_is_the_one_before(house: House) -> None:
    stores = Stores()
    for meaning, others in (("2", {2}), ("3", {1, 3})):
        versions = staged(house, meaning)
        stores.beside = others
        versions.promote("v")
        drive(house, stores)
        works(house)
        house.tick(times=2)
        house.clock.advance(10.0)
    assert [(s.name, s.version) for s in house.control.statuses()] == [("v", 3), ("v@1", 1), ("v@2", 2)]
    assert versions.rollback("v", 1) == "v@1"
    assert versions.withdraw("v")
    assert versions.rollback("v") == "v@2"


def test_the_old_version_runs_until_the_new_one_has_read_everything(house: House) -> None:
    versions = staged(house)
    versions.promote("v")
    house.host.works("v@2")
    house.tick(times=20)
    assert ("v", "serving", "RUNNING") in shown(house) and not house.host.stops
    works(house)
    house.tick()
    house.tick()
    assert house.host.stops == ["v"]
    house.tick(times=8)
    assert house.host.stops == ["v"]  # what it had read before the old one ended is not enough
    works(house)
    house.tick(times=3)
    assert house.host.stops == ["v", "v@2"]


def test_one_that_fails_gives_up_and_the_old_one_serves(house: House) -> None:
    versions = staged(house)
    job = versions.promote("v")
    works(house)
    house.tick(times=3)
    assert house.host.stops == ["v"]
    house.host.says("v@2", "failed", failure=error("TARGET_DIFFERS", table="v__ds_v2", difference="n"))
    house.tick(times=3)
    works(house)
    house.tick()
    assert shown(house) == [("v", "serving", "RUNNING"), ("v@2", "staged", "FAILED")]
    with house.control.journal.write() as connection:
        shapes = [Transition("v@2", house.clock.now(), "shape", "1", str(number)) for number in range(6)]
        rows.add_transitions(connection, shapes)
    with pytest.raises(DsError) as refused:
        versions.wait_served("v", job, 1.0)
    assert refused.value.condition == "PROMOTION_GIVEN_UP"
    assert "v__ds_v2" in refused.value.message, "the reason, whatever its history has since"


def test_one_that_fails_says_how_it_is_built_again_and_is_started_again(house: House) -> None:
    versions = staged(house)
    lost = error("INPUT_RECREATED", entity="k.clicks")
    house.host.says("v@2", "failed", failure=lost)
    house.tick(times=2)
    status = house.control.status("v@2")
    assert (status.state, status.hint) == ("FAILED", "run `ds abandon v`, then `ds stage v` to build the version again")
    staged(house)
    assert house.control.status("v@2").generation == status.generation + 1
    works(house)
    house.tick(times=2)
    assert shown(house)[1] == ("v@2", "staged", "RUNNING")
    staged(house)
    assert house.control.status("v@2").generation == status.generation + 1, "it runs already"
    job = versions.promote("v")
    house.host.says("v@2", "failed", failure=lost)
    house.tick(times=3)
    with pytest.raises(DsError) as refused:
        versions.wait_served("v", job, 1.0)
    assert "`ds abandon v`" in refused.value.hint and "reset" not in refused.value.hint
    house.host.says("v", "failed", failure=lost)
    house.tick(times=2)
    assert "`ds reset` starts" in house.control.status("v").hint


def test_a_table_that_is_held_gives_up_with_its_reason(house: House) -> None:
    versions = staged(house)
    job = versions.promote("v")
    for _ in range(20):
        works(house)
        house.tick()
        if house.host.under_way:
            house.host.does(error("VERSION_TABLE_HELD", table="public.v"))
            house.tick(times=2)
            break
    works(house)
    house.tick(times=2)
    assert shown(house) == [("v", "serving", "RUNNING"), ("v@2", "staged", "RUNNING")]
    with pytest.raises(DsError) as refused:
        versions.wait_served("v", job, 1.0)
    assert "public.v cannot give its name" in refused.value.message


def test_a_query_that_is_stopped_meanwhile_stays_stopped(house: House) -> None:
    versions = staged(house)
    versions.promote("v")
    house.tick(times=2)
    house.control.stop(["v"], "bob")
    house.tick(times=4)
    works(house)
    house.tick(times=4)
    assert shown(house) == [("v", "serving", "STOPPED"), ("v@2", "staged", "RUNNING")]


def test_a_store_that_does_not_answer_is_asked_again(house: House) -> None:
    versions, stores = staged(house), Stores()
    versions.promote("v")
    failures = 0
    for _ in range(60):
        works(house)
        house.tick()
        if house.host.under_way and failures < 3:
            house.host.does(error("TARGET_LOCKED", table="v", reason="busy"))
            failures += 1
        elif house.host.under_way:
            break
    assert failures == 3
    drive(house, stores)
    assert stores.public == 2


def to_the_last_step(house: House) -> Versions:
    versions = staged(house)
    versions.promote("v")
    for _ in range(20):
        works(house)
        house.tick()
        if house.host.under_way:
            return versions
    raise AssertionError("the last step does not begin")


def fail(house: House, condition: str, times: int, **params: str) -> int:
    """The last step fails so often in a row, or until it is given up; how often it did."""
    for number in range(times):
        if not house.host.under_way:
            return number
        house.host.does(error(condition, **params))
        house.tick()
        house.tick(61.0)
    return times


@pytest.mark.parametrize("in_turn", [True])
def test_a_last_step_that_fails_on_and_on_gives_up_and_the_old_version_goes_on(house: House) -> None:
    versions = to_the_last_step(house)
    fail(house, "KAFKA_MARKER_UNREADABLE", 8)
    status = house.control.status("v@2")
    assert (status.role, status.state, status.condition) == ("promoting", "STOPPED", "KAFKA_MARKER_UNREADABLE")
    assert status.attempts == 8 and status.next_retry is not None
    assert fail(house, "KAFKA_MARKER_UNREADABLE", 99) == 3
    works(house)
    house.tick(times=2)
    assert shown(house) == [("v", "serving", "RUNNING"), ("v@2", "staged", "RUNNING")]
    history = [(t.reason, t.condition) for t in house.control.transitions("v@2", 50) if t.kind == "desired"]
    for number, delay in {1: 1.0, 3: 4.0, 8: 60.0}.items():
        assert (f"attempt {number} failed, next in {delay} s", "KAFKA_MARKER_UNREADABLE") in history
    assert any("did not take over: failed 11 times" in reason and "over 10 min" in reason for reason, _ in history)
    versions.promote("v")
    drive(house, stores := Stores())
    assert stores.public == 2 and not house.control.status("v").condition


@pytest.mark.parametrize("in_turn", [True])
def test_a_server_that_is_away_for_long_is_waited_for_and_the_wait_can_be_ended(house: House) -> None:
    versions = to_the_last_step(house)
    fail(house, "STORE_UNREACHABLE", 12, store="k", entity="t")
    status = house.control.status("v@2")
    assert (status.role, status.condition) == ("promoting", "STORE_UNREACHABLE")
    versions.abandon("v")
    house.tick(times=3)
    works(house)
    house.tick(times=2)
    assert shown(house)[0] == ("v", "serving", "RUNNING") and shown(house)[1][1] == "dropping"
    late = house.host.does()
    assert late.kind == "serve"
    house.tick(times=2)
    assert shown(house)[1][1] == "dropping", "the end of an older errand is not the end of this one"
    house.tick(times=4)
    assert house.host.does().kind == "drop"
    house.tick()
    assert shown(house) == [("v", "serving", "RUNNING")]


def test_public_names_that_may_have_changed_are_tried_until_the_store_tells(house: House) -> None:
    versions = to_the_last_step(house)
    fail(house, "TARGET_LOCKED", 12, table="v", reason="busy")
    assert house.control.status("v@2").condition == "TARGET_LOCKED"
    with pytest.raises(DsError) as refused:
        versions.abandon("v")
    assert refused.value.condition == "PROMOTION_UNDERWAY"
    with pytest.raises(DsError) as held:
        versions.wait_served("v", "v@2", 5.0)
    assert held.value.condition == "PROMOTION_HELD_UP" and "busy" in held.value.message
    drive(house, stores := Stores())
    assert stores.public == 2


def test_a_stop_after_the_public_names_have_changed_stops_the_new_version(house: House) -> None:
    to_the_last_step(house)
    stores = Stores()
    house.control.stop(["v"], "bob")
    stores.serve(house.host.under_way[0].former, house.host.under_way[0].order.place)
    house.host.does()
    house.tick(times=3)
    drive(house, stores)
    house.tick(times=2)
    assert stores.public == 2 and house.control.status("v").version == 2
    assert shown(house) == [("v", "serving", "STOPPED"), ("v@1", "kept", "STOPPED")]


def test_a_version_that_serves_already_is_not_waited_for(house: House) -> None:
    """Of several versions one takes over while another one is waited for."""
    versions, stores = staged(house), Stores()
    job = versions.promote("v")
    drive(house, stores)
    assert versions.wait_served("v", job, 1.0) == 2


def test_a_version_that_is_gone_is_not_waited_for(house: House) -> None:
    versions = staged(house)
    job = versions.abandon("v")
    house.tick(times=20)
    with pytest.raises(DsError) as refused:
        versions.wait_served("v", job, 1.0)
    assert refused.value.condition == "PROMOTION_GIVEN_UP"


def test_when_time_is_over_the_version_stays_staged(house: House) -> None:
    versions = staged(house)
    job = versions.promote("v")
    with pytest.raises(DsError) as refused:
        versions.wait_served("v", job, 5.0)
    assert refused.value.condition == "PROMOTION_TIMED_OUT"
    assert shown(house)[1][:2] == ("v@2", "staged")


def test_an_abandoned_version_goes_with_its_rows(house: House) -> None:
    versions = staged(house)
    versions.promote("v")
    works(house)
    house.tick(times=3)
    assert house.host.stops == ["v"]
    versions.abandon("v")
    house.tick(times=4)
    assert house.host.does().kind == "drop"
    house.tick()
    works(house)
    house.tick()
    assert shown(house) == [("v", "serving", "RUNNING")]
    assert staged(house).jobs("v")["v@3"].role == "staged"


def test_kept_versions_go_with_gc_and_no_other(house: House) -> None:
    versions, stores = staged(house), Stores()
    versions.promote("v")
    drive(house, stores)
    assert versions.drop_kept() == ("v@1",)
    house.tick(times=2)
    errand = house.host.does()
    assert (errand.kind, errand.order.place, errand.order.checkpoint_name) == ("drop", 1, "v")
    house.tick()
    assert [s.name for s in house.control.statuses()] == ["v"]


def test_nothing_else_changes_a_query_that_is_handed_over(house: House) -> None:
    versions = staged(house)
    versions.promote("v")
    works(house)
    house.tick(times=3)
    with pytest.raises(DsError) as refused:
        house.control.ensure(project(house.settings, changed("1")), ["v"], "restart", "bob")
    assert refused.value.condition == "PROMOTION_UNDERWAY"
    with pytest.raises(DsError) as refused:
        house.control.ensure(project(house.settings, changed("3")), ["v"], "reset", "bob", allow=["duplicates"])
    assert refused.value.condition == "PROMOTION_UNDERWAY"


def test_two_people_stage_one_version(house: House) -> None:
    staged(house)
    staged(house)
    assert [o.name for o in house.host.orders] == ["v", "v@2"]
    with pytest.raises(DsError) as refused:
        staged(house, meaning="3")
    assert refused.value.condition == "STAGED_OTHERWISE"


def test_a_version_is_an_orphan_only_with_its_query(house: House) -> None:
    staged(house)
    assert not house.control.orphans(project(house.settings, changed()))
    names = [status.name for status in house.control.orphans(project(house.settings))]
    assert names == ["v", "v@2"]


def test_how_far_a_version_is(house: House) -> None:
    staged(house)
    assert progress_of(house.control.status("v")) == ""
    assert progress_of(house.control.status("v@2")) == "staged"
    house.host.works("v@2", rows=83, lag_records=17)
    house.tick(2.0)
    assert progress_of(house.control.status("v@2")) == "staged, 83 %"
    works(house)
    house.tick(2.0)
    assert progress_of(house.control.status("v@2")) == "staged, caught up"
    house.host.works("v@2", rows=500, lag_records=1500, caught_up=house.clock.now())
    house.tick(2.0)
    assert progress_of(house.control.status("v@2")) == "staged, 25 %", "it was at the end once"
