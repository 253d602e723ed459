"""When a job may go on: the table of a checkpoint's tip against a sink's, and a model in which both lose their ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_dagster.catalog.ledger import CheckpointTip, SinkFacts, SinkVerdict, Tip, decide, within_run
from ds_dagster.errors import InternalError

VERSION = 3
EMPTY = CheckpointTip()
DONE = CheckpointTip(Tip(4, "aa"))
BEGUN = CheckpointTip(Tip(4, "aa"), Tip(5, "bb"))
FIRST = CheckpointTip(None, Tip(0, "00"))
GO_ON = SinkVerdict()
SKIP = SinkVerdict(skip=Tip(5, "bb"))
CHECKPOINT_BEHIND = SinkVerdict("CHECKPOINT_BEHIND_SINK")
SINK_BEHIND = SinkVerdict("SINK_BEHIND_CHECKPOINT")
GONE = SinkVerdict("TARGET_GONE")


@pytest.mark.parametrize(
    ("checkpoint", "tip", "expected"),
    [
        (EMPTY, None, GO_ON),
        (FIRST, None, GO_ON),
        (FIRST, Tip(0, "00"), SinkVerdict(skip=Tip(0, "00"))),
        (FIRST, Tip(0, "11"), CHECKPOINT_BEHIND),
        (FIRST, Tip(1, "11"), CHECKPOINT_BEHIND),
        (EMPTY, Tip(0, "00"), CHECKPOINT_BEHIND),
        (DONE, Tip(4, "aa"), GO_ON),
        (DONE, Tip(4), GO_ON),
        (CheckpointTip(Tip(4, "aabbcc")), Tip(4, "aabb"), GO_ON),
        (CheckpointTip(Tip(4, "aabbcc")), Tip(4, "aacc"), CHECKPOINT_BEHIND),
        (CheckpointTip(Tip(4)), Tip(4, "aa"), GO_ON),
        (DONE, Tip(4, "cc"), CHECKPOINT_BEHIND),
        (DONE, Tip(5, "bb"), CHECKPOINT_BEHIND),
        (DONE, Tip(9, "aa"), CHECKPOINT_BEHIND),
        (DONE, Tip(3, "99"), SINK_BEHIND),
        (DONE, None, SINK_BEHIND),
        (BEGUN, Tip(5, "bb"), SKIP),
        (BEGUN, Tip(5), SKIP),
        (BEGUN, Tip(4, "aa"), GO_ON),
        (BEGUN, Tip(4), GO_ON),
        (BEGUN, Tip(5, "cc"), CHECKPOINT_BEHIND),
        (BEGUN, Tip(6, "bb"), CHECKPOINT_BEHIND),
        (BEGUN, Tip(4, "cc"), CHECKPOINT_BEHIND),
        (BEGUN, Tip(3, "99"), SINK_BEHIND),
        (BEGUN, None, SINK_BEHIND),
    ],
)
def test_the_two_tips(checkpoint: CheckpointTip, tip: Tip | None, expected: SinkVerdict) -> None:
    version = None if tip is None else VERSION
    assert decide(checkpoint, SinkFacts(tip, version), VERSION) == expected


@pytest.mark.parametrize(
    ("checkpoint", "sink", "expected"),
    [
        (EMPTY, SinkFacts(exists=False), GO_ON),
        (FIRST, SinkFacts(exists=False), GO_ON),
        (DONE, SinkFacts(exists=False), GONE),
        (DONE, SinkFacts(Tip(4, "aa"), VERSION, exists=False), GONE),
        (FIRST, SinkFacts(Tip(0, "00"), VERSION, exists=False), GONE),
        (EMPTY, SinkFacts(version=VERSION - 1), SinkVerdict(replaces=True)),
        (EMPTY, SinkFacts(version=VERSION - 1, exists=False), SinkVerdict(replaces=True)),
        (DONE, SinkFacts(version=VERSION - 1), SINK_BEHIND),
        (DONE, SinkFacts(Tip(4, "aa"), VERSION + 1), SinkVerdict("LEDGER_NEWER")),
        (EMPTY, SinkFacts(version=VERSION + 1, exists=False, differs=True), SinkVerdict("LEDGER_NEWER")),
        (DONE, SinkFacts(Tip(4, "aa"), VERSION, is_table=False), SinkVerdict("TARGET_NOT_A_TABLE")),
        (DONE, SinkFacts(Tip(4, "aa"), VERSION, differs=True), SinkVerdict("TARGET_DIFFERS")),
        (EMPTY, SinkFacts(has_others=True), SinkVerdict("TARGET_OF_OTHER_JOB")),
        (EMPTY, SinkFacts(version=VERSION - 1, keeps="TARGET_SHARED_RESET"), SinkVerdict("TARGET_SHARED_RESET")),
        (DONE, SinkFacts(Tip(4, "aa"), VERSION, keeps="TARGET_SHARED_RESET"), GO_ON),
        (EMPTY, SinkFacts(keeps="TARGET_REFERENCED"), GO_ON),
    ],
)
def test_the_target(checkpoint: CheckpointTip, sink: SinkFacts, expected: SinkVerdict) -> None:
    assert decide(checkpoint, sink, VERSION) == expected


@pytest.mark.parametrize(
    ("batch", "tip", "skip", "expected"),
    [
        (Tip(5, "bb"), Tip(4, "aa"), None, GO_ON),
        (Tip(0, "00"), None, None, GO_ON),
        (Tip(5, "bb"), Tip(5, "bb"), Tip(5, "bb"), SKIP),
        (Tip(5, "bb"), Tip(5, "bb"), None, CHECKPOINT_BEHIND),
        (Tip(5, "bb"), Tip(5, "bb"), Tip(4, "aa"), CHECKPOINT_BEHIND),
        (Tip(5, "bb"), Tip(5, "cc"), Tip(5, "bb"), CHECKPOINT_BEHIND),
        (Tip(5, "bb"), Tip(7, "cc"), None, CHECKPOINT_BEHIND),
        (Tip(5, "bb"), Tip(3, "99"), None, SINK_BEHIND),
        (Tip(5, "bb"), None, None, SINK_BEHIND),
    ],
)
def test_a_batch_of_a_run(batch: Tip, tip: Tip | None, skip: Tip | None, expected: SinkVerdict) -> None:
    version = None if tip is None else VERSION
    assert within_run(batch, SinkFacts(tip, version), VERSION, skip) == expected


def test_a_planned_batch_follows_the_last_one() -> None:
    with pytest.raises(InternalError):
        CheckpointTip(Tip(3), Tip(5))


@dataclass
class Model:
    """A source of numbered rows, a checkpoint and a sink with its ledger; both are lists that may lose their ends."""

    produced: int = 0
    planned: list[int] = field(default_factory=list)
    """End offset of each planned batch."""
    committed: int = 0
    """How many of them are finished."""
    written: list[tuple[int, list[int]]] = field(default_factory=list)
    """Of each batch in the sink: its end offset, and its rows."""

    def tip(self) -> CheckpointTip:
        tips = [Tip(number, f"{end:x}") for number, end in enumerate(self.planned)]
        done = tips[self.committed - 1] if self.committed else None
        return CheckpointTip(done, tips[-1] if len(tips) > self.committed else None)

    def facts(self) -> SinkFacts:
        if not self.written:
            return SinkFacts()
        return SinkFacts(Tip(len(self.written) - 1, f"{self.written[-1][0]:x}"), VERSION)

    def start(self) -> SinkVerdict:
        return decide(self.tip(), self.facts(), VERSION)

    def run(self, steps: int, skip: Tip | None) -> None:
        """Steps of batches (plan, write, commit); the end of a run is a crash, wherever it is."""
        at = 1 if len(self.planned) > self.committed else 0
        for step in range(at, at + steps):
            (self.plan, lambda: self.write(skip), self.commit)[step % 3]()

    def plan(self) -> None:
        self.produced += 1
        self.planned.append(self.produced)

    def write(self, skip: Tip | None) -> None:
        number, end = len(self.planned) - 1, self.planned[-1]
        begin = self.planned[-2] if number else 0
        answer = within_run(Tip(number, f"{end:x}"), self.facts(), VERSION, skip)
        assert not answer.condition
        if answer.skip is None:
            self.written.append((end, list(range(begin, end))))

    def commit(self) -> None:
        self.committed = len(self.planned)

    def rows(self) -> list[int]:
        return [row for _, rows in self.written for row in rows]


RUNS = st.lists(st.integers(0, 8), min_size=1, max_size=6)


def _after(runs: list[int]) -> Model:
    model = Model()
    for steps in runs:
        answer = model.start()
        assert not answer.condition, "a crash alone is never refused"
        model.produced += steps % 2
        model.run(steps, answer.skip)
    return model


def _is_exact(model: Model) -> bool:
    """Whether everything is written once and in order, when the model has run to its end."""
    answer = model.start()
    assert not answer.condition
    model.run(6, answer.skip)
    if model.committed < len(model.planned):
        model.run(2, model.start().skip)
    assert model.committed == len(model.planned)
    return model.rows() == list(range(model.planned[-1]))


@given(RUNS)
def test_crashes_lose_and_double_nothing(runs: list[int]) -> None:
    assert _is_exact(_after(runs))


@given(RUNS, st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_a_checkpoint_without_its_end_is_refused_or_exact(
    runs: list[int], planned: int, committed: int, more: int
) -> None:
    """Commit log and offset log lose their ends, each as far as it likes; the source has got more rows since."""
    model = _after(runs)
    del model.planned[max(0, len(model.planned) - planned) :]
    model.committed = min(max(0, model.committed - committed), len(model.planned))
    if len(model.planned) - model.committed > 1:
        model.committed = len(model.planned) - 1  # Spark plans one batch ahead: it refuses a checkpoint with two
    model.produced += more
    lost = len(model.written) > len(model.planned)
    if lost:
        assert model.start() == CHECKPOINT_BEHIND
    else:
        assert _is_exact(model)


@given(RUNS, st.integers(1, 5))
def test_a_sink_without_its_end_is_refused_or_exact(runs: list[int], lost: int) -> None:
    model = _after(runs)
    del model.written[max(0, len(model.written) - lost) :]
    if len(model.written) < model.committed:
        assert model.start() == SINK_BEHIND
    else:
        assert _is_exact(model)


@given(RUNS, st.integers(1, 4))
def test_a_batch_planned_again_is_never_taken_for_the_one_that_was_written(runs: list[int], more: int) -> None:
    """What an engine without this check did: the checkpoint lost its end and was run on."""
    model = _after(runs)
    if not model.written:
        return
    number = len(model.written) - 1
    model.planned[number:] = [model.written[-1][0] + more]
    model.committed = min(model.committed, number)
    assert model.start() == CHECKPOINT_BEHIND
    model.committed = len(model.planned)
    assert model.start() == CHECKPOINT_BEHIND
