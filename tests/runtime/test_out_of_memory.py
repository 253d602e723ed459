"""An engine that is ended by one of its jobs: who is blamed, who goes on, in which order."""

from __future__ import annotations

from ds_dagster.errors import error
from ds_dagster.runtime.deciding.decide import REPEATED_SECONDS, REPEATS
from tests.runtime.fakes import project, query
from tests.runtime.test_reconcile import House, house

__all__ = ["house"]
NAMES = ("a", "b", "c")


def run_all(house: House, *names: str) -> None:
    queries = [query(name, f"t_{name}") for name in NAMES]
    house.control.ensure(project(house.settings, *queries), NAMES, "ensure", "ann")
    house.tick()
    for name in names:
        house.host.works(name)
    house.tick()


def out_of_memory(house: House, *busy: str) -> None:
    """The JVM ends while these are in a batch; a new engine takes over."""
    for name, seen in house.host.seen.items():
        house.host.says(name, seen.phase, busy=name in busy)
    house.tick()
    house.reconciler.ended_by(error("ENGINE_OUT_OF_MEMORY", memory="600m", jobs=list(busy)))
    house.begin()


def test_who_was_in_a_batch_backs_off_and_the_others_go_on_at_once(house: House) -> None:
    run_all(house, *NAMES)
    out_of_memory(house, "a")
    house.tick()
    assert [house.state(name) for name in NAMES] == ["BACKING_OFF", "STARTING", "STARTING"]
    assert house.control.status("a").condition == "ENGINE_OUT_OF_MEMORY"
    house.tick(2.0)
    assert house.state("a") == "STARTING"


def test_the_same_batch_at_two_ends_is_failed_with_its_name_and_the_heap(house: House) -> None:
    run_all(house, *NAMES)
    for _ in range(2):
        out_of_memory(house, "a")
        house.tick(2.0, times=2)
    status = house.control.status("a")
    assert (status.state, status.condition) == ("FAILED", "ENGINE_OUT_OF_MEMORY")
    assert "600m of memory" in status.message
    assert "a batch of a" in status.message
    assert [house.state(name) for name in ("b", "c")] == ["STARTING", "STARTING"]


def test_one_that_moved_on_is_innocent(house: House) -> None:
    run_all(house, *NAMES)
    out_of_memory(house, "a", "b")
    house.tick(2.0, times=2)
    house.host.works("a", batch=1)
    house.tick(2.0)
    out_of_memory(house, "a", "b")
    house.tick()
    assert (house.state("a"), house.state("b")) == ("BACKING_OFF", "FAILED")


def test_suspects_start_one_by_one(house: House) -> None:
    run_all(house, *NAMES)
    out_of_memory(house, *NAMES)
    house.tick(5.0, times=3)
    states = [house.state(name) for name in NAMES]
    assert states == ["STARTING", "BACKING_OFF", "BACKING_OFF"]
    house.host.works("a", batch=1)
    house.tick()
    assert [house.state(name) for name in NAMES] == ["RUNNING", "STARTING", "BACKING_OFF"]


def test_a_person_who_asks_starts_it_with_a_clean_slate(house: House) -> None:
    run_all(house, *NAMES)
    for _ in range(2):
        out_of_memory(house, "a")
        house.tick(2.0, times=2)
    house.want("a", "restart")
    house.tick()
    assert house.state("a") == "STARTING"
    out_of_memory(house, "a")
    house.tick()
    assert house.state("a") == "BACKING_OFF"


def test_a_poisoned_batch_is_failed_with_its_history(house: House) -> None:
    run_all(house, *NAMES)
    for _ in range(REPEATS):
        house.host.says("a", "failed", failure=error("INPUT_GONE", entities="s.t"))
        house.tick()
        house.tick(REPEATED_SECONDS / REPEATS + 60.0)
    assert house.state("a") == "FAILED"
    (last,) = (t for t in house.control.transitions("a") if t.target == "FAILED")
    assert "batch 1 failed 10 times in a row with INPUT_GONE" in last.reason
    assert house.history("a").count("BACKING_OFF") == REPEATS - 1
