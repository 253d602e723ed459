"""What a checkpoint keeps of its batches, and the same checkpoint with an earlier end. That Spark goes on from it, with
its state, is proven in tests/conformance/test_restored_sinks.py."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip
from ds_dagster.runtime.checkpoint_files import grown_folder
from ds_dagster.runtime.checkpoint_log import copy_without_state, first_offset, kept_batches, rewind_checkpoint
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.deciding.from_sink import CheckpointLog
from ds_dagster.runtime.deciding.identity import Identity

HEADS = {"v1": '{"t":{"0":%d}}\n-', "v2": 'ümlaut_a:{"t":{"0":%d}}\nb:-'}
ENDS = {"v1": '[{"t":{"0":%d}},null]', "v2": '{"b":null,"ümlaut_a":{"t":{"0":%d}}}'}
STORES = ("state/0/0", "state/0/1/left-keyToNumValues", "state/1/0")


@pytest.fixture(params=["v1", "v2"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Batches 3 to 7 are finished, 8 is planned; one state store is of RocksDB."""
    place = tmp_path / "v1"
    files = {
        f"offsets/{n}": f'{request.param}\n{{"batchWatermarkMs":0}}\n{HEADS[request.param] % n}' for n in range(3, 9)
    }
    files |= {f"commits/{n}": "v1\n{}" for n in range(3, 8)} | {"commits/.7.crc": "", "offsets/.8.crc": ""}
    files |= {f"{store}/{n}.delta": str(n) for store in STORES[:2] for n in range(4, 10)}
    files |= {"state/0/0/.9.delta.crc": "", "state/0/0/8.snapshot": ""}
    files |= {f"{STORES[2]}/{n}.changelog": str(n) for n in range(4, 9)}
    files |= {f"{STORES[2]}/{name}": "" for name in ("5.zip", "8_a-b.zip", "SSTs/000009-a.sst", "_metadata/schema")}
    files |= {"sources/a/9": "first", "ds-sources.json": "{}", "metadata": "{}", "state/0/_metadata/v2/0": ""}
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    (place / "version").write_text(request.param)
    return place


def digest(place: Path, batch: int) -> str:
    ends = ENDS[(place / "version").read_text()] % batch
    return hashlib.sha256(ends.encode()).hexdigest()


def test_it_has_the_batches_of_its_logs_and_their_state(place: Path) -> None:
    kept = kept_batches(place)
    assert kept.finished == 7
    assert {n: tip.offsets for n, tip in kept.batches.items()} == {n: digest(place, n) for n in range(3, 9)}
    assert kept.states == {3, 4, 5, 6, 7}
    (place / STORES[2] / "6.changelog").unlink()
    (place / STORES[0] / "5.delta").write_text("")
    assert kept_batches(place).states == {3, 6, 7}, "an empty file has no state"


def test_what_is_gone_keeps_nothing(tmp_path: Path) -> None:
    assert kept_batches(tmp_path / "v1") == CheckpointLog()


def test_an_entry_that_cannot_be_read_is_not_known(place: Path) -> None:
    (place / "offsets" / "4").write_text("v1\n{}\nplain text")
    (place / "offsets" / "5").write_text("")
    (place / "offsets" / "6").write_bytes(b"v1\n{}\n\xff")
    assert set(kept_batches(place).batches) == {3, 7, 8}


@pytest.mark.parametrize("following", [None, 6])
def test_files_of_later_batches_are_left_out(place: Path, following: int | None) -> None:
    before = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    rewind_checkpoint(place, Tip(5), None if following is None else Tip(following))
    left = before - {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert left == {
        *(f"offsets/{n}" for n in (6, 7, 8) if n != following),
        *("offsets/.8.crc", "commits/6", "commits/7", "commits/.7.crc"),
        *(f"{store}/{n}.delta" for store in STORES[:2] for n in (7, 8, 9)),
        *("state/0/0/.9.delta.crc", "state/0/0/8.snapshot"),
        *(f"{STORES[2]}/{name}" for name in ("7.changelog", "8.changelog", "8_a-b.zip")),
    }
    assert kept_batches(place).finished == 5
    whole = place.with_name("v1-replaced-1")
    assert {str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file()} == before
    assert not place.with_name("v1-new").exists()


def test_a_copy_without_state_has_everything_else(place: Path) -> None:
    folder = grown_folder(place)
    (folder / "state" / "0" / "0").mkdir(parents=True)
    (place / "commits" / ".8.a.tmp").write_text("")
    copy_without_state(place, folder)
    names = [{path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()} for top in (place, folder)]
    assert names[1] == {name for name in names[0] if not name.startswith(STORES) and not name.endswith(".tmp")}
    assert "state/0/_metadata/v2/0" in names[1]


def test_an_exchange_that_was_killed_is_finished_before_a_start(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, Identity("j", ""))
    place = checkpoints.path("a", 1)
    for folder, text in ((place, "old"), (grown_folder(place), "partly"), (place.with_name("v1-grown"), "new")):
        folder.mkdir(parents=True)
        (folder / "metadata").write_text(text)
    assert (checkpoints.verify("a", 1, started=True, progressed=True) / "metadata").read_text() == "old"
    place.rename(place.with_name("v1-replaced-1"))
    assert (checkpoints.verify("a", 1, started=True, progressed=True) / "metadata").read_text() == "new"


def test_the_first_offset_are_known_with_and_without_names(tmp_path: Path) -> None:
    for name in ("a", "0"):
        (tmp_path / name / "sources" / name).mkdir(parents=True)
        (tmp_path / name / "sources" / name / "0").write_bytes(b'\0v1\n{"t":{"0":7,"1":0}}')
        assert first_offset(tmp_path / name, "a") == {"t": {"0": 7, "1": 0}}
    assert first_offset(tmp_path / "gone", "a") is None
    (tmp_path / "a" / "sources" / "a" / "0").write_text("v1 of another form")
    assert first_offset(tmp_path / "a", "a") is None
