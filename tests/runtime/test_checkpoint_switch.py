"""The batch that leads a checkpoint to where another one has ended. That Spark goes on from it is proven in
tests/e2e/changing/test_streams.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_dagster.errors import DsError
from ds_dagster.runtime.checkpoint_switch import BatchEnd, plan_switch, source_ends


def entry(a: int, b: int | None, tick: int | None, version: str = "v1") -> str:
    """A batch that ends at these offsets and this time, microseconds; 0: its query has none; None: not known yet."""
    head = json.dumps({"batchWatermarkMs": (tick or 0) // 1000, "batchTimestampMs": a, "conf": {"x": "y"}})
    sources = {"a": f'{{"t":{{"0":{a}}}}}'}
    sources |= {} if b is None else {"b": f'{{"u":{{"0":{b},"1":1}}}}'}
    sources |= {} if tick == 0 else {"ticks_a": "-" if tick is None else f'{{"tick":{tick},"own":true}}'}
    return "\n".join([version, head, *(text if version == "v1" else f"{n}:{text}" for n, text in sources.items())])


def checkpoint(place: Path, entries: dict[int, str], finished: int, *, has_state: bool = True) -> Path:
    """Batches with these entries, finished to one of them."""
    for number, text in entries.items():
        files = {f"offsets/{number}": text}
        files |= {f"commits/{number}": "v1\n{}"} if number <= finished else {}
        files |= {f"state/0/0/{number + 1}.delta": "rows"} if has_state and number <= finished else {}
        for name, content in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(content)
    return place


OWN = {n: entry(10 * n, 5 * n, 1000 * n) for n in range(3, 8)}
ENDS: dict[str, tuple[str, int | None]] = {
    "ahead in all": (entry(99, 99, 99_000), 8),
    "at a batch": (entry(60, 30, 6000), 7),
    "behind in one source": (entry(99, 27, 99_000), 6),
    "behind in time": (entry(99, 99, 4500), 5),
    "without time": (entry(60, 30, 0), 7),
    "without one of the topics": (entry(60, None, 6000), None),
    "in another format": (entry(60, 30, 6000, "v2"), 7),
    "before all that is kept": (entry(5, 5, 1000), None),
}


@pytest.mark.parametrize("name", ENDS)
def test_it_goes_back_to_the_newest_batch_that_is_not_behind_the_point(tmp_path: Path, name: str) -> None:
    text, planned = ENDS[name]
    place = checkpoint(tmp_path / "v2", OWN, 7)
    former = checkpoint(tmp_path / "v1", {4: text}, 4)
    if planned is None:
        with pytest.raises(DsError) as refused:
            plan_switch("v@2", place, former, 4, has_state=True)
        assert refused.value.condition == "STREAM_NOT_HANDED_OVER"
        return
    for _ in range(2):  # a kill repeats it
        assert plan_switch("v@2", place, former, 4, has_state=True) == planned
    new, end = BatchEnd.of(place, planned), BatchEnd.of(former, 4)
    assert new.positions == end.positions
    assert new.tick == (end.tick or BatchEnd.of(place, planned - 1).tick)
    assert new.watermark == (end.watermark if end.tick else planned - 1)
    assert new.head["conf"] == {"x": "y"}
    assert max(int(path.name) for path in (place / "commits").iterdir()) == planned - 1
    assert max(int(path.name) for path in (place / "offsets").iterdir()) == planned
    assert set(tmp_path.iterdir()) == {place, former}


def test_a_batch_without_its_state_is_passed_over(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "v2", OWN, 7)
    (place / "state" / "0" / "0" / "7.delta").unlink()
    former = checkpoint(tmp_path / "v1", {0: entry(60, 30, 6000)}, 0)
    assert plan_switch("v@2", place, former, 0, has_state=True) == 6


def test_a_query_without_state_needs_none(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "v2", OWN, 7, has_state=False)
    former = checkpoint(tmp_path / "v1", {0: entry(60, 30, 0)}, 0, has_state=False)
    assert plan_switch("v@2", place, former, 0, has_state=False) == 7


def test_a_batch_that_was_begun_is_planned_anew(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "v2", OWN, 6)
    former = checkpoint(tmp_path / "v1", {0: entry(99, 99, 99_000)}, 0)
    assert plan_switch("v@2", place, former, 0, has_state=True) == 7
    assert BatchEnd.of(place, 7).positions["t"] == {"0": 99}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_time_that_is_not_known_yet_is_that_of_the_other_one(tmp_path: Path, version: str) -> None:
    place = checkpoint(tmp_path / "v2", {0: entry(1, 1, None, version)}, 0)
    former = checkpoint(tmp_path / "v1", {0: entry(1, 1, 2000)}, 0)
    assert plan_switch("v@2", place, former, 0, has_state=True) == 1
    assert (place / "offsets" / "1").read_text() == entry(1, 1, 2000, version).replace(": ", ":").replace(", ", ",")


@pytest.mark.parametrize("text", ["v1\n{\n{}", "", None])
def test_an_entry_that_cannot_be_read_is_refused(tmp_path: Path, text: str | None) -> None:
    place, former = checkpoint(tmp_path / "v2", OWN, 7), checkpoint(tmp_path / "v1", {0: text or ""}, 0)
    if text is None:
        (former / "offsets" / "0").unlink()
    with pytest.raises(DsError) as refused:
        plan_switch("v@2", place, former, 0, has_state=True)
    assert refused.value.condition == "CHECKPOINT_UNREADABLE"


def test_a_version_that_has_written_nothing(tmp_path: Path) -> None:
    former = tmp_path / "v1"
    assert plan_switch("v@2", tmp_path / "v2", former, None, has_state=True) is None
    with pytest.raises(DsError) as refused:
        plan_switch("v@2", checkpoint(tmp_path / "v2", OWN, 7), former, None, has_state=True)
    assert "no batch yet" in refused.value.message


def test_a_kill_between_two_renames_loses_no_checkpoint(tmp_path: Path) -> None:
    checkpoint(tmp_path / "v2-new", OWN, 7)
    former = checkpoint(tmp_path / "v1", {0: entry(70, 35, 7000)}, 0)
    assert plan_switch("v@2", tmp_path / "v2", former, 0, has_state=True) == 8


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_ends_of_a_source_are_known_for_every_batch_that_is_kept(tmp_path: Path, version: str) -> None:
    """With and without names; a batch before the first records of the source has none."""
    entries = {n: entry(10 * n, None, 1000, version) for n in (0, 3, 4)}
    entries[2] = entries[3].replace('{"t":{"0":30}}', "-")
    place = checkpoint(tmp_path / "v1", entries, 4)
    assert source_ends(place, "a") == {n: {"t": {"0": 10 * n}} for n in (0, 3, 4)}
    assert source_ends(tmp_path / "gone", "a") == {}
