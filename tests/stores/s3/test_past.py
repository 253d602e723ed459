"""Which files are read again for a backfill, and which have to be there: against a plain model of the query."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.catalog.reading.past import Amount, PastRequest, ReadsPast
from ds_dagster.errors import DsError
from ds_dagster.files import position as positions
from ds_dagster.files.address import FileFacts, FilesAddress
from ds_dagster.files.position import FilePosition, files_of_json
from ds_dagster.spark.files.once import FilesBatchReader
from ds_dagster.spark.files.options import FilesOptions
from ds_dagster.stores.s3.admin import S3Admin
from ds_dagster.stores.s3.past import FilesPast, files_to_read
from tests.fixtures.lake import s3_bucket
from tests.runtime.fakes import FakeClock

MILLISECOND = 1_000_000


def file(number: int, at: int) -> FileFacts:
    """A file of so many milliseconds after 1970."""
    return FileFacts(at * MILLISECOND, f"{number}.json", 10 + number)


class Reader:
    """A query over a folder, and what it has read, by a plain list."""

    def __init__(self, listing: Sequence[FileFacts], starting: str = "earliest") -> None:
        self.listing = list(listing)
        self.earlier: list[FileFacts] = self.listing[:] if starting == "latest" else []
        self.read: list[FileFacts] = []
        self.position, self.batches = FilePosition(at_end=starting == "latest"), dict[int, Any]()
        if starting == "latest":
            self._to(self.position.at_end_of(self.listing))

    def _to(self, position: FilePosition) -> None:
        self.position = FilePosition.parse(position.json())
        self.batches[len(self.batches)] = position.json()

    def batch(self, files: int) -> None:
        unread = self.position.unread(self.listing, "f.events")[:files]
        if unread:
            self.read += unread
            self._to(self.position.after(unread, self.listing))

    def request(self, **wanted: Any) -> PastRequest:
        return PastRequest("t", "events", self.position.json(), batches=self.batches, **wanted)

    def past(self, **wanted: Any) -> FilesPast:
        return files_to_read(self.request(**wanted), self.listing)


@pytest.mark.parametrize("remembered", [10_000, 8])
@pytest.mark.parametrize("seed", range(8))
def test_files_of_a_query_are_read_again_and_no_others(
    seed: int, remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order in which files appear; also where the position remembers only the newest files by name."""
    monkeypatch.setattr(positions, "REMEMBERED", remembered)
    chance = random.Random(seed)
    files = [file(number, 1000 + 10 * number + chance.randrange(30)) for number in range(40)]
    if remembered > len(files):
        chance.shuffle(files)
    reader = Reader(files[:9], chance.choice(("earliest", "latest")))
    for end in range(9, 36, 3):
        reader.listing = files[:end]
        reader.batch(chance.randrange(1, 6))
    reader.listing = files
    earlier, read = reader.earlier, sorted(reader.read)
    past = reader.past()
    assert past.files == sorted([*earlier, *read]) and past.before == len(earlier) and not past.gone
    own = reader.past(is_own=True)
    assert own.files == read and own.before == 0
    assert past.of == own.of == Amount(files=len(past.files), bytes=sum(f.size for f in past.files))
    since, until = sorted(1000 + chance.randrange(400) for _ in range(2))
    inside = [f for f in past.files if since * MILLISECOND <= f.modified < until * MILLISECOND]
    assert reader.past(since=since, until=until).files == inside
    for portions in (past.portions(None), past.portions(7), [whole] if (whole := past.whole()) else []):
        assert [f for portion in portions for f in files_of_json(portion.options["files"])] == past.files


def refusal(reader: Reader, **wanted: Any) -> DsError:
    with pytest.raises(DsError) as refused:
        reader.past(**wanted)
    return refused.value


@pytest.mark.parametrize("remembered", [10_000, 4])
def test_files_that_are_gone_are_from_other_times(remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of the last batches are known. Files of earlier batches count as older than the oldest file that is
    left, and files that came later do not replace them."""
    monkeypatch.setattr(positions, "REMEMBERED", remembered)
    files = [file(number, 1000 + number) for number in range(8)]
    reader = Reader(files)
    for _ in range(4):
        reader.batch(2)
    del reader.batches[0], reader.batches[1]
    reader.listing = [*files[2:6], files[7], file(90, 1090)]  # 6 is gone, of a batch that is kept
    for wanted in (
        {},
        {"since": 1002},
        {"since": 1003},
        {"since": 1006, "until": 1008},
        {"since": 1002, "until": 1005},
    ):
        problem = refusal(reader, **wanted)
        assert problem.condition == "BACKFILL_RECORDS_GONE" and "1970-01-01T00:00:01.002000+00:00" in problem.message
    past = reader.past(since=1003, until=1006)
    assert past.gone == 3 and past.files == files[3:6]
    assert str(past).endswith("; 3 files are gone, from other times as far as is known")
    assert reader.past(since=1007).files == [files[7]]
    reader.listing = []
    assert "an unknown time" in refusal(reader, since=1007).message


def test_only_files_of_the_query_have_to_be_there_for_its_own_records() -> None:
    old = [file(number, 1000 + number) for number in range(4)]
    reader = Reader(old, "latest")
    reader.listing = [*old, file(4, 1004)]
    reader.batch(1)
    reader.listing = [*old[2:], file(4, 1004)]
    assert refusal(reader).condition == "BACKFILL_RECORDS_GONE"
    assert reader.past(is_own=True).files == [file(4, 1004)]
    del reader.batches[0]
    reader.listing = [*old, file(4, 1004)]
    assert "where it began" in refusal(reader, is_own=True).message
    assert reader.past().before is None


def test_a_plan_says_how_much_is_read() -> None:
    files = [replace(file(number, 1000 + number), size=400_000) for number in range(1234)]
    past = FilesPast(files[:3], Amount(files=1234, bytes=493_600_000), before=2)
    assert past.amount == Amount(files=3, bytes=1_200_000)
    assert str(past) == (
        "3 files (1.2 MB) of 1,234 files (493.6 MB) are read again, 2 of them from before the query began"
    )
    assert [len(files_of_json(one.options["files"])) for one in FilesPast(files, past.of).portions(None)] == [
        335, 335, 335, 229,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def bucket() -> Iterator[Mapping[str, str]]:
    with s3_bucket("past") as settings:
        yield settings


@pytest.mark.parametrize("place", ["folder", pytest.param("bucket", marks=pytest.mark.servers)])
def test_given_files_are_read_once_no_faster_than_the_rate(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = {"url": (tmp_path / "files").as_uri()}
    if place == "bucket":
        settings = {**request.getfixturevalue("bucket"), "url": "s3://past/files"}
    settings["store"] = "f"
    admin = S3Admin(FilesAddress.of(settings))
    for name, rows in (("a/b.jsonl", 45), ("c.jsonl.gz", 12), ("empty.jsonl", 0)):
        text = "".join(f'{{"id":{number}}}\n' for number in range(rows)).encode()
        admin.store.write(f"{admin.address.place('events')}/{name}", gzip.compress(text) if "gz" in name else text)
    listing = list(admin.store.listed(admin.address.place("events")))
    end = FilePosition().after(sorted(listing), listing).json()
    admin.store.write(f"{admin.address.place('events')}/later.jsonl", b'{"id":-1}\n')
    operations = admin.operations()
    assert isinstance(operations, ReadsPast)
    past = operations.past(PastRequest("t", "events", end, batches={0: end}))
    assert str(past).startswith("3 files") and past.before == 0
    fixed = {**settings, "folder": "events", "format": "json", "columns": "[]"}
    for rate, seconds in (None, 0.0), (4, 57 / 4):
        clock, sizes = FakeClock(), []
        for portion in past.portions(rate):
            reader = FilesBatchReader(FilesOptions.parse({**fixed, **portion.options}), clock)
            for task in reader.partitions():
                sizes += [batch.num_rows for batch in reader.read(task)]
        assert sum(sizes) == 57 and clock.ticks == pytest.approx(100 + seconds)
        assert rate is None or max(sizes) == 20, "rows of five seconds"
