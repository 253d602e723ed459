"""What every table sink has to do, whatever the store: exactly once, by key, restartable."""

from __future__ import annotations

from typing import Any

import pytest

from ds_dagster.errors import DsError

pytestmark = pytest.mark.conformance


def test_upserts_and_deletes_by_key(sink: Any, batch: Any) -> None:
    loader = sink.loader()
    loader.load(batch([("./a", 1), ("./b", 1), ("./c", 1)]), 0)
    loader.load(batch([("./a", 2)], deleted=["./b", "./never"]), 1)
    assert sink.rows() == [("./a", 2), ("./c", 1)]


def test_a_null_key_is_one_group(sink: Any, batch: Any) -> None:
    loader = sink.loader()
    loader.load(batch([(None, 1), ("./a", 1)]), 0)
    loader.load(batch([(None, 2)]), 1)
    assert sink.rows() == [("./a", 1), (None, 2)]
    loader.load(batch([], deleted=[None]), 2)
    assert sink.rows() == [("./a", 1)]


def test_appends_keep_every_row(sink: Any, batch: Any) -> None:
    loader = sink.loader(mode="append")
    loader.load(batch([("./a", 1), ("./a", 1)], mode="append"), 0)
    loader.load(batch([("./a", 1)], mode="append"), 1)
    assert sink.rows() == [("./a", 1)] * 3


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_replayed_batch_changes_nothing(sink: Any, batch: Any, mode: str) -> None:
    loader = sink.loader(mode=mode)
    first = loader.load(batch([("./a", 1)], mode=mode), 0)
    again = sink.loader(mode=mode)
    replayed = again.load(batch([("./a", 99)], mode=mode), 0)
    assert (first.rows, first.replayed, replayed.rows, replayed.replayed) == (1, False, 0, True)
    assert sink.rows() == [("./a", 1)]
    assert again.finish() == 1, "a replayed batch belongs to the run"


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_empty_batch_is_noted(sink: Any, batch: Any, mode: str) -> None:
    loader = sink.loader(mode=mode)
    assert loader.load(batch([], mode=mode), 0).rows == 0
    assert loader.load(batch([("./a", 1)], mode=mode), 0).replayed
    assert sink.rows() == []


def test_a_batch_of_deletes_only(sink: Any, batch: Any) -> None:
    loader = sink.loader()
    loader.load(batch([("./a", 1)]), 0)
    loader.load(batch([], deleted=["./a"]), 1)
    assert sink.rows() == []


def test_a_new_version_begins_with_an_empty_table(sink: Any, batch: Any) -> None:
    sink.loader(version=1).load(batch([("./old", 1), ("./a", 1)]), 0)
    newer = sink.loader(version=2)
    assert sink.rows() == [("./a", 1), ("./old", 1)], "readers keep the old rows until there are new ones"
    newer.load(batch([("./a", 5)]), 0)
    assert sink.rows() == [("./a", 5)]


def test_an_old_version_is_fenced(sink: Any, batch: Any) -> None:
    old = sink.loader(version=1)
    old.load(batch([("./a", 1)]), 0)
    sink.loader(version=2).load(batch([("./a", 2)]), 0)
    with pytest.raises(DsError) as problem:
        old.load(batch([("./a", 99)]), 1)
    assert problem.value.condition == "LEDGER_NEWER"
    assert sink.rows() == [("./a", 2)]


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


def test_timestamps_keep_their_microseconds(sink: Any, batch: Any) -> None:
    sink.loader().load(batch([("./a", 1)]), 0)
    found = sink.read()[0]["at"]
    assert found == (sink.at if sink.kind != "sqlite" else "2024-01-31 23:59:59.000005")


def test_a_full_refresh_shows_only_when_it_is_complete(sink: Any, batch: Any) -> None:
    if sink.kind == "sqlite":
        pytest.skip("views are never loaded in full")
    first = sink.loader(refresh="full", mode="append")
    first.load(batch([("./a", 1)], mode="append"), 0)
    assert first.finish() == 1
    second = sink.loader(version=2, refresh="full", mode="append")
    second.load(batch([("./b", 1)], mode="append"), 0)
    second.load(batch([("./c", 1)], mode="append"), 1)
    assert sink.rows() == [("./a", 1)]
    assert second.finish() == 2
    assert sink.rows() == [("./b", 1), ("./c", 1)]


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
