"""Savepoints as folders: complete or absent, whatever goes on meanwhile. That Spark goes on from them is proven in
tests/e2e/changing/test_savepoints.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.ledger import Tip
from ds_dagster.errors import DsError
from ds_dagster.runtime import savepoints as module
from ds_dagster.runtime.checkpoint_files import ORIGIN
from ds_dagster.runtime.checkpoint_log import kept_batches
from ds_dagster.runtime.checkpoint_switch import BatchEnd, entry_at
from ds_dagster.runtime.savepoints import Savepoint, Savepoints, origin_of, put_savepoint, tip_of
from tests.runtime.test_checkpoint_switch import OWN, checkpoint, entry

SPEC = json.dumps({"name": "q"})


def about(folder: Path, version: int = 1) -> Savepoint:
    return Savepoint("", "q", "dev.j.q", 0, version, Tip(0), 17.0, SPEC, folder)


def take(folder: Path, place: Path, name: str = "", version: int = 1) -> Savepoint:
    return Savepoints(folder / "saved").take(name, place, about(folder, version), has_state=True)


def condition(call: Callable[[], Any]) -> str:
    with pytest.raises(DsError) as refused:
        call()
    return refused.value.condition


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Batches 3 to 7 are finished, 8 is planned and being written."""
    place = checkpoint(tmp_path / "v1", {**OWN, 8: entry(80, 40, 8000)}, 7)
    (place / "state" / "0" / "0" / ".9.delta.0000.tmp").write_text("half")
    (place / "state" / "0" / "0" / "9.delta").write_text("of the batch that runs")
    (place / "ds-sources.json").write_text('{"a": "topic-1"}')
    (place / "ds-targets.json").write_text('{"k.out": "topic-2"}')
    return place


def test_it_ends_at_the_last_finished_batch(tmp_path: Path, place: Path) -> None:
    saved = take(tmp_path, place)
    assert (saved.name, saved.tip.batch, saved.origin) == ("batch-7-17", 7, 1)
    copy = kept_batches(saved.checkpoint)
    assert (copy.finished, max(copy.batches), max(copy.states)) == (7, 7, 7)
    assert saved.tip.is_same(kept_batches(place).batches[7])
    ends = json.loads(saved.tip.ends)
    assert ends["sources"] == {"a": "topic-1"} and {"t": {"0": 70}} in ends["offsets"]
    assert not list(saved.folder.rglob("*.tmp")) and saved.targets == {"k.out": "topic-2"}
    assert [s.name for s in Savepoints(tmp_path / "saved").all()] == ["batch-7-17"]


def test_files_that_go_meanwhile_are_copied_again(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []

    def copied(*arguments: Any) -> None:
        copies.append(arguments)
        if len(copies) < 3:
            raise FileNotFoundError("3")
        copy_batches(*arguments)

    copy_batches = module.copy_batches
    monkeypatch.setattr(module, "copy_batches", copied)
    assert take(tmp_path, place).tip.batch == 7
    monkeypatch.setattr(module, "copy_batches", lambda *_: (_ for _ in ()).throw(FileNotFoundError("3")))
    assert condition(lambda: take(tmp_path, place, "other")) == "SAVEPOINT_REFUSED"
    assert [path.name for path in (tmp_path / "saved" / "q").iterdir()] == ["batch-7-17"], "complete or absent"


def test_what_cannot_be_saved_is_refused(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert condition(lambda: take(tmp_path, tmp_path / "none")) == "SAVEPOINT_REFUSED"
    assert condition(lambda: take(tmp_path, place, "../x")) == "SAVEPOINT_REFUSED"
    take(tmp_path, place, "one")
    assert condition(lambda: take(tmp_path, place, "one")) == "SAVEPOINT_REFUSED"
    (place / "state" / "0" / "0" / "8.delta").unlink()
    assert condition(lambda: take(tmp_path, place, "two")) == "SAVEPOINT_REFUSED"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "copy_batches", full)
    assert condition(lambda: take(tmp_path, place, "three")) == "SAVEPOINT_NOT_WRITTEN"


def test_they_are_listed_and_deleted(tmp_path: Path, place: Path) -> None:
    savepoints = Savepoints(tmp_path / "saved")
    assert savepoints.all() == ()
    take(tmp_path, place, "one")
    assert condition(lambda: savepoints.get("q", "on")) == "SAVEPOINT_UNKNOWN"
    savepoints.delete(savepoints.get("q", "one"))
    assert savepoints.all() == () and not list((tmp_path / "saved" / "q").iterdir())
    gone = take(tmp_path, place, "two")
    shutil.rmtree(gone.folder)
    assert condition(lambda: savepoints.delete(gone)) == "SAVEPOINT_NOT_WRITTEN"
    manifest = take(tmp_path, place, "three").folder / "savepoint.json"
    for text in ("{", '{"format": 2}', manifest.read_text().replace('"batch"', '"bunch"')):
        manifest.write_text(text)
        assert condition(savepoints.all) == "SAVEPOINT_UNREADABLE"


def test_a_checkpoint_is_made_of_it_as_often_as_asked(tmp_path: Path, place: Path) -> None:
    saved, new = take(tmp_path, place), tmp_path / "v2"
    former = checkpoint(tmp_path / "former", {12: entry(120, 60, 12_000)}, 12)
    end = kept_batches(former).batches[12]
    following = entry_at(former, end, saved.checkpoint, 7)
    for _ in range(2):  # a kill repeats it
        planned = put_savepoint(saved, new, following)
        assert planned is not None and (planned.batch, planned.offsets) == (8, end.offsets)
    log = kept_batches(new)
    assert (log.finished, max(log.batches)) == (7, 8)
    assert BatchEnd.of(new, 8) == BatchEnd.of(former, 12)
    assert (new / "ds-targets.json").exists() and origin_of(new, 2) == 1
    again = take(tmp_path, new, "again", version=2)
    assert (again.origin, again.version) == (1, 2), "its history goes on"
    assert put_savepoint(saved, tmp_path / "fork", is_fork=True) is None
    assert not (tmp_path / "fork" / "ds-targets.json").exists() and (tmp_path / "fork" / ORIGIN).exists()


def test_a_ledger_gives_the_end_of_a_query_without_time(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "v1", {n: entry(10 * n, None, 0) for n in range(3, 8)}, 7)
    saved = take(tmp_path, place)
    gone, tip = tmp_path / "gone", tip_of(place, 7)
    assert tip is not None
    end = Tip(41, tip.offsets, tip.ends)
    following = entry_at(gone, end, saved.checkpoint, 7)
    planned = put_savepoint(saved, tmp_path / "v2", following)
    assert planned is not None and planned.is_same(Tip(8, tip.offsets))
    timed = checkpoint(tmp_path / "timed", OWN, 7)
    assert entry_at(gone, end, timed, 7) == "", "a ledger has no event time"
    assert entry_at(gone, Tip(41, tip.offsets), saved.checkpoint, 7) == "", "nor an old ledger offsets"


def test_those_of_a_former_name_are_found_by_their_job(tmp_path: Path, place: Path) -> None:
    savepoints = Savepoints(tmp_path / "saved")
    take(tmp_path, place, "one")
    assert savepoints.of_job("r", "dev.j.q", "one").query == "q"
    assert condition(lambda: savepoints.of_job("r", "dev.j.q", "two")) == "SAVEPOINT_UNKNOWN"
    assert condition(lambda: savepoints.of_job("r", "dev.j.r", "one")) == "SAVEPOINT_UNKNOWN"
    assert savepoints.of_job("q", "dev.other.q", "one").job == "dev.j.q"


def test_a_query_has_no_savepoints_of_another_one_in_the_same_folder(tmp_path: Path, place: Path) -> None:
    savepoints = Savepoints(tmp_path / "saved")
    savepoints.take("one", place, replace(about(tmp_path), query="a-b"), has_state=True)
    savepoints.take("two", place, replace(about(tmp_path), query="a_b"), has_state=True)
    assert [saved.name for saved in savepoints.all("a_b")] == ["two"]
    assert len(savepoints.all()) == 2
    assert condition(lambda: savepoints.get("a_b", "one")) == "SAVEPOINT_UNKNOWN"
