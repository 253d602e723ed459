"""Records go into a store without transactions once, wherever a run ends, and whatever the store answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.reading.skew import ClockSkew
from ds_dagster.catalog.redriving import Put, RepairedRecord
from ds_dagster.errors import DsError, error
from ds_dagster.questions.upkeep.noted_puts import SETTLED_SECONDS, ByNotes
from tests.runtime.fakes import FakeClock

LATER = SETTLED_SECONDS + 5


class KilledError(Exception):
    """The process ends here."""


@dataclass
class World:
    """A stream and notes; each step of a run may be its last."""

    clock: FakeClock = field(default_factory=FakeClock)
    stream: list[RawRecord] = field(default_factory=list)
    notes_kept: dict[str, str] = field(default_factory=dict)
    owner: int = 0
    steps_left: int = 10**9
    answers: list[Callable[[World, Sequence[RepairedRecord]], Put]] = field(default_factory=list)
    kept: float = 86_400.0
    skew_seconds: ClockSkew = field(default_factory=lambda: ClockSkew(0.0, 0.0))

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise KilledError

    def arrive(self, record: RepairedRecord) -> str:
        millis = int(self.clock.now() * 1000)
        number = str(len(self.stream))
        self.stream.append(RawRecord("s-1", number, millis, record.key, record.value or None))
        return f"s-1/{number}"

    def noted(self, _name: str) -> Mapping[str, str]:
        return self.notes_kept

    def notes(self, _name: str, _like: str) -> NotesOf:
        self.owner += 1
        return NotesOf(self, self.owner)

    # the store's admin and its operations

    def skew(self, _entities: Sequence[str]) -> ClockSkew:
        return self.skew_seconds

    def records(self, _entity: str, *, since: int, **_: object) -> Iterator[RawRecord]:
        return iter([record for record in self.stream if record.timestamp_millis >= since])

    def kept_seconds(self, _entity: str) -> float:
        return self.kept

    def portions(self, _entity: str, records: Sequence[RepairedRecord]) -> Iterator[Sequence[RepairedRecord]]:
        yield from (records[begin : begin + 3] for begin in range(0, len(records), 3))

    def put(self, _entity: str, records: Sequence[RepairedRecord]) -> Put:
        self.step()
        put = self.answers.pop(0)(self, records) if self.answers else all_written(self, records)
        self.step()
        return put

    def run(self, records: Sequence[RepairedRecord], *, may_double: bool = False) -> None:
        store: Any = self
        sender = ByNotes(store, self, "n", self.clock, may_double, self, "log").redriver("orders")
        sent = sender.sent()
        sender.send([record for record in records if record.id not in sent])

    def values(self) -> Counter[bytes | None]:
        return Counter(record.value for record in self.stream)


@dataclass
class NotesOf:
    """Those of one run, until a later one takes over."""

    world: World
    owner: int

    def read(self) -> Mapping[str, str]:
        return dict(self.world.notes_kept)

    def write(self, notes: Mapping[str, str]) -> None:
        self.world.step()
        if self.owner != self.world.owner:
            raise error("STORE_CALL_FAILED", store="k", action="write notes")
        self.world.notes_kept |= notes
        self.world.step()

    def close(self) -> None:
        return


def all_written(world: World, records: Sequence[RepairedRecord]) -> Put:
    return Put({record.id: world.arrive(record) for record in records})


def first_alone(world: World, records: Sequence[RepairedRecord]) -> Put:
    refused = error("STORE_CALL_FAILED", store="n", action="send", detail="ProvisionedThroughputExceededException")
    return Put({records[0].id: world.arrive(records[0])}, refused, is_for_now=True)


def no_answer_but_there(world: World, records: Sequence[RepairedRecord]) -> Put:
    all_written(world, records)
    return Put({}, lost(), is_known=False)


def no_answer_and_not_there(_world: World, _records: Sequence[RepairedRecord]) -> Put:
    return Put({}, lost(), is_known=False)


def denied(_world: World, _records: Sequence[RepairedRecord]) -> Put:
    return Put({}, error("STORE_PERMISSION_DENIED", store="n", user="u", action="send"))


def lost() -> DsError:
    return error("STORE_UNREACHABLE", store="n", address="here")


def records(count: int) -> list[RepairedRecord]:
    return [RepairedRecord(f"s-0/{n}00/7", b"k", f"v{n}".encode(), 7, None, '{"by": "me"}') for n in range(count)]


def expected(count: int) -> Counter[bytes | None]:
    return Counter(record.value for record in records(count))


@pytest.mark.parametrize("steps", range(12))
def test_each_record_is_there_once_wherever_the_first_run_is_killed(steps: int) -> None:
    world = World(steps_left=steps)
    with pytest.raises(KilledError):
        world.run(records(6))
    world.steps_left = 10**9
    world.clock.sleep(LATER)
    world.run(records(6))
    world.run(records(6))
    assert world.values() == expected(6)


def _repaired(record: RepairedRecord, run: int) -> RepairedRecord:
    value = record.value or b""
    return record if value == b"same" else replace(record, value=value.partition(b".")[0] + b".%d" % run)


def _by_number(values: Iterable[bytes | None]) -> Counter[bytes]:
    return Counter((value or b"").partition(b".")[0] for value in values)


@pytest.mark.parametrize("seed", range(20))
def test_each_record_is_there_once_after_any_number_of_runs(seed: int) -> None:
    """Killed, without an answer, refused for now, with repairs in between and identical records among them."""
    chance = random.Random(seed)
    world = World()
    todo = [replace(record, value=b"same") if chance.random() < 0.3 else record for record in records(9)]
    ways = (all_written, first_alone, no_answer_but_there, no_answer_and_not_there)
    for run in range(8):
        todo = [_repaired(record, run) if chance.random() < 0.3 else record for record in todo]
        world.steps_left, world.answers = chance.randrange(20), [chance.choice(ways) for _ in range(4)]
        try:
            world.run(todo)
        except (KilledError, DsError):
            world.clock.sleep(LATER)
    world.steps_left, world.answers = 10**9, []
    world.run(todo)
    assert _by_number(record.value for record in world.stream) == _by_number(record.value for record in todo)


def test_a_run_waits_for_records_that_may_still_arrive() -> None:
    world = World(answers=[no_answer_and_not_there])
    with pytest.raises(DsError, match="STORE_UNREACHABLE"):
        world.run(records(2))
    with pytest.raises(DsError) as caught:
        world.run(records(2))
    assert (caught.value.condition, caught.value.params["count"]) == ("REDRIVE_UNDER_WAY", 2)
    world.clock.sleep(float(str(caught.value.params["seconds"])))
    world.run(records(2))
    assert world.values() == expected(2)


def test_a_run_that_another_one_has_ended_begins_no_further_request() -> None:
    world = World()

    def meanwhile(world: World, portion: Sequence[RepairedRecord]) -> Put:
        with pytest.raises(DsError, match="REDRIVE_UNDER_WAY"):
            world.run(records(6))
        return all_written(world, portion)

    world.answers = [meanwhile]
    with pytest.raises(DsError, match="STORE_CALL_FAILED"):
        world.run(records(6))
    assert len(world.stream) == 3
    world.clock.sleep(LATER)
    world.run(records(6))
    assert world.values() == expected(6)


def test_the_record_itself_is_not_taken_for_what_was_sent_again() -> None:
    """Its bytes are the same, and it may have arrived a moment ago."""
    world = World(answers=[no_answer_and_not_there])
    (record,) = records(1)
    world.stream.append(RawRecord("s-0", "000", int(world.clock.now() * 1000), record.key, record.value))
    with pytest.raises(DsError):
        world.run([replace(record, id="s-0/000/7")])
    world.clock.sleep(LATER)
    world.run([replace(record, id="s-0/000/7")])
    assert len(world.stream) == 2


def test_what_the_stream_has_forgotten_is_refused_by_name() -> None:
    world = World(answers=[no_answer_and_not_there])
    with pytest.raises(DsError):
        world.run(records(2))
    world.clock.sleep(world.kept + LATER)
    with pytest.raises(DsError) as caught:
        world.run(records(2))
    assert (caught.value.condition, caught.value.params["first"]) == ("REDRIVE_UNCERTAIN", "s-0/000")
    world.run(records(2), may_double=True)
    assert world.values() == expected(2)


def test_the_clock_of_this_machine_may_be_wrong() -> None:
    """By an hour; the store's own time counts."""
    world = World(answers=[no_answer_but_there], skew_seconds=ClockSkew(3_599.0, 3_600.5))
    arrive = World.arrive

    def earlier(record: RepairedRecord) -> str:
        place = arrive(world, record)
        world.stream[-1] = replace(world.stream[-1], timestamp_millis=world.stream[-1].timestamp_millis - 3_600_000)
        return place

    world.arrive = earlier  # type: ignore[method-assign]
    with pytest.raises(DsError):
        world.run(records(2))
    world.clock.sleep(LATER)
    world.run(records(2))
    assert world.values() == expected(2)


def test_a_refusal_for_good_ends_the_run_and_leaves_nothing_open() -> None:
    world = World(answers=[denied])
    with pytest.raises(DsError, match="STORE_PERMISSION_DENIED"):
        world.run(records(2))
    world.run(records(2))
    assert world.values() == expected(2)
