"""Which batches of a step die: each once, and where the case says."""

from __future__ import annotations

import pytest

from ds_dagster.errors import DsError
from ds_dagster.testing.running import Crashes
from ds_dagster.testing.topics import Topic


def batch(crashes: Crashes, epoch: int) -> str:
    """Where the batch died, empty when it lived."""
    for where, moment in (("before", crashes.before_write), ("after", crashes.after_write)):
        try:
            moment(epoch)
        except DsError as problem:
            assert problem.condition == "INJECTED_CRASH"
            return where
    return ""


def test_nothing_dies_unasked():
    assert [batch(Crashes(), epoch) for epoch in range(3)] == ["", "", ""]


def test_before_commit_every_batch_dies_once_behind_its_write():
    crashes = Crashes()
    crashes.arm("before_commit")
    assert [batch(crashes, epoch) for epoch in (4, 4, 5, 5)] == ["after", "", "after", ""]
    crashes.arm(None)
    assert batch(crashes, 6) == ""


def test_batches_of_several_sinks_die_after_one_of_them_in_turn():
    crashes = Crashes(sinks=("b", "c", "a"))
    crashes.arm("before_commit")
    died = []
    for epoch in (0, 0, 1, 1, 2, 2, 3, 3):
        try:
            for sink in ("a", "b", "c"):
                crashes.after_write(epoch, sink)
        except DsError:
            died.append((epoch, sink))
    assert died == [(0, "b"), (1, "c"), (2, "a"), (3, "b")]


def test_after_commit_the_next_batch_dies_before_its_write():
    crashes = Crashes()
    crashes.arm("after_commit")
    assert [batch(crashes, epoch) for epoch in (4, 5, 5, 6, 6)] == ["", "before", "", "before", ""]
    crashes.arm("after_commit")
    assert batch(crashes, 7) == ""


@pytest.mark.parametrize("epochs", [[0, 0, 1], [0, 1, 0, 1]])
def test_a_topic_takes_a_batch_of_a_writer_once(epochs):
    topic = Topic("t")
    for epoch in epochs:
        topic.write("q", epoch, [(None, str(epoch).encode())], 5)
    topic.write("other", 0, [(None, b"o")], 5)
    assert [record.value for record in topic.records] == [b"0", b"1", b"o"]
    assert [record.position for record in topic.records] == [0, 1, 2]
