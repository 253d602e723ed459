"""When a table sink goes on and when it refuses, whatever the store: its ledger against the checkpoint, its target
against what was loaded (:mod:`ds_dagster.catalog.ledger` has the table)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.errors import DsError
from tests.conformance.conftest import often

pytestmark = pytest.mark.conformance
A, B, C, D = (letter * 64 for letter in "abcd")
LOCAL = ("memory", "sqlite", "delta")
ENDS = ('{"offsets":[{"t":{"0":4}}],"sources":{"s":"it\'s"}}', '{"offsets":[{"t":{"0":5}}],"sources":{}}')
BEFORE = CheckpointTip(Tip(0, A))
DONE = CheckpointTip(Tip(0, A), Tip(1, B))


def refused(step: Callable[[], Any]) -> str:
    with pytest.raises(DsError) as problem:
        step()
    return problem.value.condition


@pytest.mark.parametrize("sink", often(*LOCAL, "databricks_warehouse", "postgres", "snowflake"), indirect=True)
def test_what_a_loaded_sink_goes_on_with_and_what_it_refuses(sink: Any, batch: Any) -> None:
    """One sink for all of these rules, each of which begins with what the one before it left: loading it takes most of
    the time."""
    loader = sink.loader()
    loader.load(batch([("./a", 1), ("./b", 1)]), Tip(0, A))
    loader.load(batch([("./a", 2)]), Tip(1, B))
    loader.close()
    check_refusals_change_nothing(sink)
    the_planned_batch_is_skipped_once(sink, batch)
    within_a_run_no_batch_is_skipped_but_the_planned_one(sink, batch)
    a_new_version_begins_with_an_empty_table_and_fences_the_old_one(sink, batch)
    a_target_that_was_removed_is_gone(sink, batch)
    rows_of_another_job_are_not_added_to(sink, batch)


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "the checkpoint lost its end": ({"tip": BEFORE}, "CHECKPOINT_BEHIND_SINK"),
    "the checkpoint is empty": ({"tip": CheckpointTip()}, "CHECKPOINT_BEHIND_SINK"),
    "the checkpoint lost a batch": ({"tip": CheckpointTip(None, Tip(0, A))}, "CHECKPOINT_BEHIND_SINK"),
    "the last batch is planned again": ({"tip": CheckpointTip(Tip(0, A), Tip(1, C))}, "CHECKPOINT_BEHIND_SINK"),
    "the last batch is another one": ({"tip": CheckpointTip(Tip(1, C))}, "CHECKPOINT_BEHIND_SINK"),
    "the sink lost its end": ({"tip": CheckpointTip(Tip(2, C))}, "SINK_BEHIND_CHECKPOINT"),
    "the sink lost a batch": ({"tip": CheckpointTip(Tip(2, C), Tip(3, A))}, "SINK_BEHIND_CHECKPOINT"),
    "the ledger lacks this version": ({"version": 2, "tip": BEFORE}, "SINK_BEHIND_CHECKPOINT"),
    "the table has another shape": ({"tip": CheckpointTip(Tip(1, B)), "more": True}, "TARGET_DIFFERS"),
    "a shared table is reset": ({"version": 2, "shared": True}, "TARGET_SHARED_RESET"),
}
"""What a sink that has batches 0 and 1 meets at a start → how its loader begins, what is raised."""
REPORTED = (
    "the checkpoint lost its end",
    "the last batch is another one",
    "the ledger lacks this version",
    "the table has another shape",
    "a shared table is reset",
)
"""Refusals for which a sink has to report another fact each: number, digest and version of its batch, and its shape.
Sinks behind a server meet these alone; what follows from the facts is decided in one place, for all of them."""
ONE_WRITER = "a shared table is reset"
"""Not of sqlite: a view has one writer."""


def check_refusals_change_nothing(loaded: Any) -> None:
    cases = REFUSED if loaded.kind in LOCAL else REPORTED
    begun = {case: REFUSED[case] for case in cases if (loaded.kind, case) != ("sqlite", ONE_WRITER)}
    found = {case: refused(lambda to=to: loaded.loader(**to)) for case, (to, _) in begun.items()}
    assert found == {case: condition for case, (_, condition) in begun.items()}
    assert loaded.rows() == [("./a", 2), ("./b", 1)]


def the_planned_batch_is_skipped_once(loaded: Any, batch: Any) -> None:
    loader = loaded.loader(tip=DONE).loader
    assert loader.load(batch([("./a", 2)]), Tip(1, B)).replayed
    assert not loader.load(batch([("./c", 1)]), Tip(2, C)).replayed
    assert loaded.rows() == [("./a", 2), ("./b", 1), ("./c", 1)]


def within_a_run_no_batch_is_skipped_but_the_planned_one(loaded: Any, batch: Any) -> None:
    """The ledger has moved on behind the loader's back: another engine, or a checkpoint exchanged under a run. The
    checkpoint is a finished one, from which a run goes on."""
    slow, fast = (loaded.loader(tip=CheckpointTip(Tip(2, C))).loader for _ in range(2))
    assert not fast.load(batch([("./d", 1)]), Tip(3, D)).replayed
    assert refused(lambda: slow.load(batch([("./d", 9), ("./e", 1)]), Tip(3, A))) == "CHECKPOINT_BEHIND_SINK"
    assert loaded.rows() == [("./a", 2), ("./b", 1), ("./c", 1), ("./d", 1)]


def a_new_version_begins_with_an_empty_table_and_fences_the_old_one(loaded: Any, batch: Any) -> None:
    """While it runs, and at its start."""
    tip = CheckpointTip(Tip(3, D))
    old, newer = loaded.loader(tip=tip).loader, loaded.loader(version=2, tip=CheckpointTip()).loader
    assert len(loaded.rows()) == 4, "readers keep the old rows until there are new ones"
    newer.load(batch([("./a", 5)]), Tip(0, A))
    assert loaded.rows() == [("./a", 5)]
    assert refused(lambda: old.load(batch([("./a", 99)]), Tip(4, A))) == "LEDGER_NEWER"
    assert refused(lambda: loaded.loader(tip=tip)) == "LEDGER_NEWER"
    newer.load(batch([("./b", 6)]), Tip(1, B))
    assert loaded.rows() == [("./a", 5), ("./b", 6)]


def a_target_that_was_removed_is_gone(loaded: Any, batch: Any) -> None:
    loaded.remove()
    for tip in (CheckpointTip(Tip(1, B)), DONE):
        assert refused(lambda tip=tip: loaded.loader(version=2, tip=tip)) == "TARGET_GONE"  # type: ignore[misc]
    again = loaded.loader(version=3, tip=CheckpointTip())
    again.load(batch([("./c", 1)]), Tip(0, A))
    assert loaded.rows() == [("./c", 1)], "a reset loads it anew"


def rows_of_another_job_are_not_added_to(loaded: Any, batch: Any) -> None:
    if loaded.kind == "sqlite":  # the file belongs to the state folder: a new journal builds the view anew
        loaded.loader(job="test/other/q").load(batch([("./z", 1)]), 0)
        assert loaded.rows() == [("./z", 1)]
        return
    assert refused(lambda: loaded.loader(job="test/other/q")) == "TARGET_OF_OTHER_JOB"
    full = loaded.loader(job="test/other/q", refresh="full")
    full.load(batch([("./z", 1)]), 0)
    assert (full.finish(), loaded.rows()) == (1, [("./z", 1)]), "a full refresh replaces them"


def test_the_ledger_keeps_where_its_last_batch_ends_and_takes_a_later_number_for_it(sink: Any, batch: Any) -> None:
    """So that a checkpoint can be made from it, and a sink that lacks batches goes on beside one that has them
    (``ds repair --from-sink``)."""
    if sink.kind in ("delta_s3", "databricks"):
        pytest.skip("delta-rs reads a history with Python's lock held, and these buckets live in this process")
    loader = sink.loader()
    loader.load(batch([("./a", 1)]), Tip(0, A, ENDS[0]))
    assert loader.tip().ends == ENDS[0]
    loader.load(batch([]), Tip(1, B, ENDS[1]))
    is_restorable = loader.is_restorable
    loader.close()
    last = sink.open_loader(sink.target(), SinkIdentity("test/j/q", 1))
    assert last.tip().is_same(Tip(1, B)) and last.tip().ends == ENDS[1]
    assert sink.open_loader(sink.target(), SinkIdentity("test/j/q", 2)).tip() is None, "asking makes nothing"
    assert sink.rows() == [("./a", 1)]
    if not is_restorable:
        assert sink.kind.startswith("databricks_")
        return
    last.renumber(Tip(6, B, ENDS[1]))
    assert last.tip().is_same(Tip(6, B))
    for wrong in (Tip(6, B), Tip(7, A)):
        assert refused(lambda tip=wrong: last.renumber(tip)) == "INTERNAL"
    last.close()
    loader = sink.loader(tip=CheckpointTip(Tip(6, B), Tip(7, A))).loader
    assert not loader.load(batch([("./b", 1)]), Tip(7, A)).replayed
    assert sink.rows() == [("./a", 1), ("./b", 1)]
    restored = sink.open_loader(sink.target(), SinkIdentity("test/j/q", 2))
    for _ in range(2):  # a kill repeats it
        restored.adopt(Tip(3, A, ENDS[0]))
    assert refused(lambda: restored.adopt(Tip(4, B))) == "INTERNAL"
    restored.close()
    loader = sink.loader(version=2, tip=CheckpointTip(Tip(2, B), Tip(3, A))).loader
    assert loader.load(batch([("./c", 1)]), Tip(3, A)).replayed, (
        "the rows of the version before are its own (ds restore)"
    )
    assert not loader.load(batch([("./c", 1)]), Tip(4, B)).replayed
    assert sink.rows() == [("./a", 1), ("./b", 1), ("./c", 1)]


def test_a_full_refresh_shows_when_it_is_complete_and_may_change_the_columns(sink: Any, batch: Any) -> None:
    if sink.kind == "sqlite":
        pytest.skip("views are never loaded in full")
    first = sink.loader(refresh="full", mode="append")
    first.load(batch([("./a", 1)], mode="append"), 0)
    assert first.finish() == 1
    second = sink.loader(version=2, refresh="full", mode="append", more=True)
    second.load(batch([("./b", 2)], mode="append", more=True), 0)
    second.load(batch([("./c", 2)], mode="append", more=True), 1)
    assert sink.rows() == [("./a", 1)]
    assert (second.finish(), sink.rows()) == (2, [("./b", 2), ("./c", 2)])
    assert second.finish() == 2, "twice is the same as once"
    third = sink.loader(version=3, refresh="full", mode="append", more=True)
    third.load(batch([("./d", 3)], mode="append", more=True), 0)
    assert (third.finish(), sink.rows()) == (1, [("./d", 3)])
