"""What every table sink has to do, whatever the store: exactly once, by key, restartable."""

from __future__ import annotations

from typing import Any

import pytest

from ds_dagster.catalog.ledger import CheckpointTip
from ds_dagster.errors import DsError

pytestmark = pytest.mark.conformance


def test_rows_are_upserted_and_deleted_by_key_and_a_replayed_batch_changes_nothing(sink: Any, batch: Any) -> None:
    """A null key is one group."""
    begin_empty(sink, batch, "upsert")
    loader = sink.loader()
    loader.load(batch([("./a", 1), ("./b", 1), ("./c", 1)]), 2)
    found = sink.read()[0]["at"]
    assert found == (sink.at if sink.kind != "sqlite" else "2024-01-31 23:59:59.000005"), "with its microseconds"
    loader.load(batch([("./a", 2)], deleted=["./b", "./never"]), 3)
    assert sink.rows() == [("./a", 2), ("./c", 1)]
    loader.load(batch([(None, 1), ("./d", 1)]), 4)
    loader.load(batch([(None, 2)]), 5)
    assert sink.rows() == [("./a", 2), ("./c", 1), ("./d", 1), (None, 2)]
    loader.load(batch([], deleted=[None, "./c"]), 6)
    assert sink.rows() == [("./a", 2), ("./d", 1)], "a batch of deletes only"


def test_appends_keep_every_row_and_a_replayed_batch_changes_nothing(sink: Any, batch: Any) -> None:
    begin_empty(sink, batch, "append")
    loader = sink.loader(mode="append")
    loader.load(batch([("./a", 1), ("./a", 1)], mode="append"), 2)
    assert sink.rows() == [("./a", 1)] * 3


def begin_empty(sink: Any, batch: Any, mode: str) -> None:
    """An empty batch is noted, and one with a row loaded once."""
    loader = sink.loader(mode=mode)
    assert loader.load(batch([], mode=mode), 0).rows == 0
    assert loader.load(batch([("./a", 1)], mode=mode), 0).replayed
    assert sink.rows() == []
    with pytest.raises(DsError) as problem:
        sink.loader(mode=mode, tip=CheckpointTip())
    assert problem.value.condition == "CHECKPOINT_BEHIND_SINK"
    first = sink.loader(mode=mode).load(batch([("./a", 1)], mode=mode), 1)
    again = sink.loader(mode=mode)
    replayed = again.load(batch([("./a", 99)], mode=mode), 1)
    assert (first.rows, first.replayed, replayed.rows, replayed.replayed) == (1, False, 0, True)
    assert sink.rows() == [("./a", 1)]
    assert again.finish() == 1, "a replayed batch belongs to the run"


def test_a_failed_batch_leaves_nothing(sink: Any, batch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver dies after the rows were written and before the commit."""
    if sink.kind == "memory":
        pytest.skip("a dict has no transaction to break")
    if sink.kind in ("delta_s3", "databricks", "databricks_workspace"):
        pytest.skip("a commit fails the same way in a folder, where it can be made to")
    if sink.kind == "databricks_warehouse":
        pytest.skip("rows and ledger are two statements; see test_databricks.py for a batch cut off between them")
    loader: Any = sink.loader()
    loader.load(batch([("./a", 1)]), 0)
    with sink.failing_commit(loader, monkeypatch) as raised, pytest.raises(raised):
        loader.load(batch([("./a", 2), ("./b", 1)]), 1)
    assert sink.rows() == [("./a", 1)]
    again = sink.loader()
    assert not again.load(batch([("./a", 2), ("./b", 1)]), 1).replayed
    assert sink.rows() == [("./a", 2), ("./b", 1)]


HOUR = 3_600_000


@pytest.fixture
def view(sink: Any) -> Any:
    """A store that may hold views."""
    if sink.age is None:
        pytest.skip(f"{sink.kind} holds no views")
    return sink


def test_rows_of_a_view_go_by_their_age(view: Any, batch: Any) -> None:
    loader = view.loader(retention_millis=HOUR)
    loader.load(batch([("./a", 1), ("./b", 1), (None, 1)]), 0)
    view.age(HOUR - 60_000)
    loader.load(batch([("./a", 2)]), 1)
    assert loader.expire() == 0
    view.age(60_000)
    assert loader.load(batch([("./a", 9)]), 1).replayed, "what is replayed is not younger"
    assert loader.expire() == 2
    assert view.rows() == [("./a", 2)]
    loader.load(batch([("./b", 5)]), 2)
    assert view.rows() == [("./a", 2), ("./b", 5)], "a change brings a row back"
    view.age(HOUR)
    assert (loader.expire(), loader.expire(), view.rows()) == (2, 0, [])


def test_rows_of_an_append_view_go_by_their_age(view: Any, batch: Any) -> None:
    loader = view.loader(mode="append", retention_millis=HOUR)
    loader.load(batch([("./a", 1), ("./a", 1)], mode="append"), 0)
    view.age(HOUR)
    loader.load(batch([("./a", 1), ("./b", 1)], mode="append"), 1)
    assert loader.expire() == 2
    loader.load(batch([("./c", 1)], mode="append"), 2)
    assert view.rows() == [("./a", 1), ("./b", 1), ("./c", 1)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_retention_comes_and_goes_with_a_restart(view: Any, batch: Any, mode: str) -> None:
    view.loader(mode=mode).load(batch([("./a", 1)], mode=mode), 0)
    ageing = view.loader(mode=mode, retention_millis=HOUR)
    if view.kind != "memory":  # whose rows always have an age
        assert ageing.expire() == 0, "what is there begins to age now"
        view.age(HOUR)
        assert ageing.expire() == 1
    ageing.load(batch([("./b", 1)], mode=mode), 1)
    kept = view.loader(mode=mode)
    kept.load(batch([("./c", 1)], mode=mode), 2)
    again = view.loader(mode=mode, retention_millis=HOUR)
    assert again.expire() == 0
    assert {("./b", 1), ("./c", 1)} <= set(view.rows())
