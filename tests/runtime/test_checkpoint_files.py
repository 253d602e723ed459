"""A checkpoint that is made from what a sink's ledger keeps. That Spark goes on from one is proven in tests/spark."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ds_dagster.catalog.ledger import Tip, ends_text
from ds_dagster.runtime.checkpoint_files import put_checkpoint, unusable
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.deciding.identity import Identity

OFFSETS = '[{"t":{"0":4,"1":5}},null,12]'


def tip(offsets: str, batch: int = 7, sources: str = '{"s":"id"}', digits: int = 64) -> Tip:
    return Tip(batch, hashlib.sha256(offsets.encode()).hexdigest()[:digits], ends_text(offsets, sources))


def lines(path: Path) -> list[str]:
    version, head, *offsets = path.read_text().split("\n")
    assert json.loads(head)["batchWatermarkMs"] == 0
    return [version, *offsets]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        (OFFSETS, ["v1", '{"t":{"0":4,"1":5}}', "-", "12"]),
        ('{"a_b":17,"ümlaut":{"t":{"0":4}}}', ["v2", "a_b:17", 'ümlaut:{"t":{"0":4}}']),
    ],
)
def test_it_ends_at_the_batch(tmp_path: Path, offsets: str, expected: list[str]) -> None:
    made = tip(offsets)
    assert unusable(made) == ""
    put_checkpoint(tmp_path / "job" / "v1", made, named=True)
    place = tmp_path / "job" / "v1"
    assert [lines(place / "offsets" / name) for name in ("6", "7")] == [expected, expected]
    assert {path.name for path in (place / "commits").iterdir()} == {"7"}
    assert json.loads((place / "ds-sources.json").read_text()) == {"s": "id"}
    assert json.loads((place / "metadata").read_text())["id"]


@pytest.mark.parametrize("entry", [b"", b"v1", b"v1\n{}", b"v1\n\xff", b"v1\n[]"])
def test_a_log_that_is_damaged_does_not_matter(tmp_path: Path, entry: bytes) -> None:
    (tmp_path / "v1" / "offsets").mkdir(parents=True)
    (tmp_path / "v1" / "offsets" / "9").write_bytes(entry)
    put_checkpoint(tmp_path / "v1", tip(OFFSETS), named=True)
    head = json.loads((tmp_path / "v1" / "offsets" / "7").read_text().split("\n")[1])
    assert head["conf"]["spark.sql.shuffle.partitions"] == "1"


def test_the_first_batch_has_none_before_it(tmp_path: Path) -> None:
    put_checkpoint(tmp_path / "v1", tip(OFFSETS, batch=0), named=False)
    assert {path.name for path in (tmp_path / "v1" / "offsets").iterdir()} == {"0"}


def test_the_one_before_is_kept_beside_it(tmp_path: Path) -> None:
    """With what of it holds for any batch; ``ds gc`` knows it."""
    checkpoints = Checkpoints(tmp_path, Identity("dev", "a" * 32))
    place = checkpoints.path("job", 2)
    (place / "sources" / "s").mkdir(parents=True)
    for name in ("metadata", "ds-targets.json", "sources/s/0"):
        (place / name).write_text(f'"{name}"')
    for batch in (3, 4):
        put_checkpoint(place, tip(OFFSETS, batch=batch), named=True)
        assert [(place / name).read_text() for name in ("metadata", "sources/s/0")] == ['"metadata"', '"sources/s/0"']
        assert (place / "ds-targets.json").read_text() == '"ds-targets.json"'
    assert [(old.version, old.path.name) for old in checkpoints.old({"job": 2})] == [
        (2, "v2-replaced-1"),
        (2, "v2-replaced-2"),
    ]
    assert not (place.parent / "v2-new").exists()


def test_the_batch_after_it_is_planned(tmp_path: Path) -> None:
    """Some sinks have it: Spark runs it again, they skip it. It compares a setting of both entries."""
    after = tip('[{"t":{"0":9,"1":9}},null,13]', batch=8)
    for batch, partitions in ((9, 2), (10, 4)):
        head = json.dumps({"conf": {"spark.sql.shuffle.partitions": str(partitions)}})
        (tmp_path / "v1" / "offsets").mkdir(parents=True, exist_ok=True)
        (tmp_path / "v1" / "offsets" / str(batch)).write_text(f"v1\n{head}\n-")
    put_checkpoint(tmp_path / "v1", tip(OFFSETS), after, named=False)
    assert lines(tmp_path / "v1" / "offsets" / "8") == ["v1", '{"t":{"0":9,"1":9}}', "-", "13"]
    assert {path.name for path in (tmp_path / "v1" / "commits").iterdir()} == {"7"}
    heads = [(tmp_path / "v1" / "offsets" / name).read_text().split("\n")[1] for name in ("7", "8")]
    assert [json.loads(head)["conf"]["spark.sql.shuffle.partitions"] for head in heads] == ["4", "4"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Tip(7, "aa"), "keeps no offsets"),
        (Tip(7, "aa", "[7"), "does not read"),
        (Tip(7, "aa", '{"sources":{}}'), "does not read"),
        (tip('["text"]'), "cannot be written"),
        (Tip(7, "aa", ends_text(OFFSETS, "{}")), "do not match its batch"),
    ],
)
def test_what_is_not_sure_is_not_used(given: Tip, why: str) -> None:
    assert why in unusable(given)


def test_a_digest_in_little_room_is_enough() -> None:
    assert unusable(tip(OFFSETS, digits=15)) == ""
