"""When a table sink goes on and when it refuses, whatever the store: its ledger against the checkpoint, its target
against what was loaded (:mod:`ds_dagster.catalog.ledger` has the table)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.ledger import CheckpointTip, Tip
from ds_dagster.errors import DsError

pytestmark = pytest.mark.conformance
A, B, C = (letter * 64 for letter in "abc")
ENDS = ('{"offsets":[{"t":{"0":4}}],"sources":{"s":"it\'s"}}', '{"offsets":[{"t":{"0":5}}],"sources":{}}')
BEFORE = CheckpointTip(Tip(0, A))
DONE = CheckpointTip(Tip(0, A), Tip(1, B))


def refused(step: Callable[[], Any]) -> str:
    with pytest.raises(DsError) as problem:
        step()
    return problem.value.condition


@pytest.fixture
def loaded(sink: Any, batch: Any) -> Any:
    """A sink that has batches 0 and 1."""
    loader = sink.loader()
    loader.load(batch([("./a", 1), ("./b", 1)]), Tip(0, A))
    loader.load(batch([("./a", 2)]), Tip(1, B))
    loader.close()
    return sink


def test_the_planned_batch_is_skipped_once(loaded: Any, batch: Any) -> None:
    loader = loaded.loader(tip=DONE).loader
    assert loader.load(batch([("./a", 2)]), Tip(1, B)).replayed
    assert not loader.load(batch([("./c", 1)]), Tip(2, C)).replayed
    assert loaded.rows() == [("./a", 2), ("./b", 1), ("./c", 1)]


def test_a_finished_checkpoint_goes_on(loaded: Any, batch: Any) -> None:
    loader = loaded.loader(tip=CheckpointTip(Tip(1, B))).loader
    assert not loader.load(batch([("./c", 1)]), Tip(2, C)).replayed
    assert loaded.rows() == [("./a", 2), ("./b", 1), ("./c", 1)]


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
ONE_WRITER = "a shared table is reset"
"""Not of sqlite: a view has one writer."""


def test_refusals_change_nothing(loaded: Any) -> None:
    """One sink for all of them: loading it takes most of the time."""
    begun = {case: how for case, how in REFUSED.items() if (loaded.kind, case) != ("sqlite", ONE_WRITER)}
    found = {case: refused(lambda to=to: loaded.loader(**to)) for case, (to, _) in begun.items()}
    assert found == {case: condition for case, (_, condition) in begun.items()}
    assert loaded.rows() == [("./a", 2), ("./b", 1)]


def test_within_a_run_no_batch_is_skipped_but_the_planned_one(loaded: Any, batch: Any) -> None:
    """The ledger has moved on behind the loader's back: another engine, or a checkpoint exchanged under a run."""
    slow, fast = (loaded.loader(tip=CheckpointTip(Tip(1, B))).loader for _ in range(2))
    fast.load(batch([("./c", 1)]), Tip(2, C))
    assert refused(lambda: slow.load(batch([("./c", 9), ("./d", 1)]), Tip(2, A))) == "CHECKPOINT_BEHIND_SINK"
    assert loaded.rows() == [("./a", 2), ("./b", 1), ("./c", 1)]


def test_a_batch_without_rows_counts(sink: Any, batch: Any) -> None:
    sink.loader().load(batch([]), Tip(0, A))
    sink.loader(tip=BEFORE)
    assert refused(lambda: sink.loader(tip=CheckpointTip())) == "CHECKPOINT_BEHIND_SINK"


def skip_without_history(sink: Any) -> None:
    if sink.kind in ("delta_s3", "databricks"):
        pytest.skip("delta-rs reads a history with Python's lock held, and these buckets live in this process")


def test_the_ledger_keeps_where_its_last_batch_ends(sink: Any, batch: Any) -> None:
    """So that a checkpoint can be made from it; whoever asks makes nothing."""
    skip_without_history(sink)
    loader = sink.loader()
    loader.load(batch([("./a", 1)]), Tip(0, A, ENDS[0]))
    assert loader.tip().ends == ENDS[0]
    loader.load(batch([]), Tip(1, B, ENDS[1]))
    found = sink.open_loader(sink.target(), SinkIdentity("test/j/q", 1)).tip()
    assert found.is_same(Tip(1, B)) and found.ends == ENDS[1]
    assert sink.open_loader(sink.target(), SinkIdentity("test/j/q", 2)).tip() is None
    assert sink.rows() == [("./a", 1)]


def test_its_newest_batch_gets_a_later_number(sink: Any, batch: Any) -> None:
    """So that a sink that lacks batches goes on beside one that has them (``ds repair --from-sink``)."""
    skip_without_history(sink)
    loader = sink.loader()
    loader.load(batch([("./a", 1)]), Tip(0, A, ENDS[0]))
    if not loader.is_restorable:
        assert sink.kind.startswith("databricks_")
        return
    loader.close()
    again = sink.open_loader(sink.target(), SinkIdentity("test/j/q", 1))
    again.renumber(Tip(6, A, ENDS[0]))
    assert again.tip().is_same(Tip(6, A))
    for wrong in (Tip(6, A), Tip(7, B)):
        assert refused(lambda tip=wrong: again.renumber(tip)) == "INTERNAL"
    again.close()
    loader = sink.loader(tip=CheckpointTip(Tip(6, A), Tip(7, B))).loader
    assert not loader.load(batch([("./b", 1)]), Tip(7, B)).replayed
    assert sink.rows() == [("./a", 1), ("./b", 1)]
    restored = sink.open_loader(sink.target(), SinkIdentity("test/j/q", 2))
    for _ in range(2):  # a kill repeats it
        restored.adopt(Tip(3, B, ENDS[1]))
    assert refused(lambda: restored.adopt(Tip(4, A))) == "INTERNAL"
    restored.close()
    loader = sink.loader(version=2, tip=CheckpointTip(Tip(2, A), Tip(3, B))).loader
    assert loader.load(batch([("./c", 1)]), Tip(3, B)).replayed, (
        "the rows of the version before are its own (ds restore)"
    )
    assert not loader.load(batch([("./c", 1)]), Tip(4, A)).replayed
    assert sink.rows() == [("./a", 1), ("./b", 1), ("./c", 1)]


def test_a_target_that_was_removed_is_gone(loaded: Any, batch: Any) -> None:
    loaded.remove()
    assert refused(lambda: loaded.loader(tip=CheckpointTip(Tip(1, B)))) == "TARGET_GONE"
    assert refused(lambda: loaded.loader(tip=DONE)) == "TARGET_GONE"
    again = loaded.loader(version=2, tip=CheckpointTip())
    again.load(batch([("./c", 1)]), Tip(0, A))
    assert loaded.rows() == [("./c", 1)], "a reset loads it anew"


def test_a_full_refresh_may_change_the_columns(sink: Any, batch: Any) -> None:
    if sink.kind == "sqlite":
        pytest.skip("views are never loaded in full")
    first = sink.loader(refresh="full", mode="append")
    first.load(batch([("./a", 1)], mode="append"), 0)
    first.finish()
    second = sink.loader(version=2, refresh="full", mode="append", more=True)
    second.load(batch([("./b", 2)], mode="append", more=True), 0)
    assert (second.finish(), sink.rows()) == (1, [("./b", 2)])
    assert second.finish() == 1, "twice is the same as once"
    third = sink.loader(version=3, refresh="full", mode="append", more=True)
    third.load(batch([("./c", 3)], mode="append", more=True), 0)
    assert (third.finish(), sink.rows()) == (1, [("./c", 3)])


def test_rows_of_another_job_are_not_added_to(loaded: Any, batch: Any) -> None:
    if loaded.kind == "sqlite":  # the file belongs to the state folder: a new journal builds the view anew
        loaded.loader(job="test/other/q").load(batch([("./z", 1)]), 0)
        assert loaded.rows() == [("./z", 1)]
        return
    assert refused(lambda: loaded.loader(job="test/other/q")) == "TARGET_OF_OTHER_JOB"
    full = loaded.loader(job="test/other/q", refresh="full")
    full.load(batch([("./z", 1)]), 0)
    assert (full.finish(), loaded.rows()) == (1, [("./z", 1)]), "a full refresh replaces them"


def test_an_older_version_is_fenced_at_its_start(loaded: Any) -> None:
    loaded.loader(version=2).load(loaded_batch(), 0)
    assert refused(lambda: loaded.loader(version=1, tip=DONE)) == "LEDGER_NEWER"


def loaded_batch() -> Any:
    from tests.conformance.conftest import make_batch

    return make_batch([("./n", 1)])
