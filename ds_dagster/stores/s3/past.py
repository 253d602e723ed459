"""Files that are read again: files that a query has read, by its position, without files from other times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ds_dagster.catalog.reading.past import Amount, PastRequest, Portion
from ds_dagster.files.address import FileFacts
from ds_dagster.files.groups import BATCH_BYTES, groups_of
from ds_dagster.files.position import FilePosition, files_json, hash_of

AT_ONCE = 1000
"""Most files of one portion."""
NANOSECONDS = 1_000_000
"""Of a millisecond."""


@dataclass(frozen=True, slots=True)
class FilesPast:
    """See ``catalog.reading.past.Past``.

    Attributes:
        files: to read, oldest first.
        of: number and bytes of all files that the query has read.
        before: number of ``files`` that were there before the query began; None if unknown.
        gone: number of files that were read and are not there any more; all are from other times, as far as is known.
    """

    files: Sequence[FileFacts]
    of: Amount
    before: int | None = None
    gone: int = 0

    is_stamped = False

    def __str__(self) -> str:
        text = f"{_shown(self.amount)} of {_shown(self.of)} are read again"
        text += f", {self.before:,} of them from before the query began" if self.before else ""
        return f"{text}; {self.gone:,} files are gone, from other times as far as is known" if self.gone else text

    @property
    def amount(self) -> Amount:
        """Files and bytes; records are not counted without reading them."""
        return _amount(self.files)

    def whole(self) -> Portion | None:
        """All files at once."""
        return Portion({"files": files_json(self.files)}) if self.files else None

    def portions(self, rate: int | None) -> Iterator[Portion]:
        """As many files at once as a batch of the query may have. With a rate, the reader pauses between rows."""
        paced = {} if rate is None else {"rows.per.second": str(rate)}
        for files in groups_of(self.files, BATCH_BYTES, AT_ONCE):
            yield Portion({"files": files_json(files), **paced})


def files_to_read(request: PastRequest, listing: Sequence[FileFacts]) -> FilesPast:
    """The files that are wanted, up to the end of the query.

    Args:
        request: of a folder.
        listing: all files of the folder.

    Raises:
        UserError: BACKFILL_REFUSED, BACKFILL_RECORDS_GONE, FILE_TOO_LATE.
    """
    end = FilePosition.parse(request.end)
    positions = {number: FilePosition.parse(offset) for number, offset in request.batches.items()}
    earlier = positions[0].before_batch() if 0 in positions else None
    if earlier is None and request.is_own:
        raise request.unknown_beginning()
    read = end.read(listing, request.entity)
    left_out = earlier if request.is_own else None
    times = {hash_of(file.path): file.modified for position in positions.values() for file in position.batch}
    gone = _gone(request, listing, end, left_out, times)
    files = [file for file in read if _is_wanted(file.modified, request) and not (left_out and left_out.has(file))]
    before = None if earlier is None else sum(earlier.has(file) for file in files)
    return FilesPast(files, _amount(read), before, gone)


def _gone(
    request: PastRequest,
    listing: Sequence[FileFacts],
    end: FilePosition,
    without: FilePosition | None,
    times: Mapping[bytes, int],
) -> int:
    """Number of files that were read and are not there any more.

    Args:
        request: of a folder.
        listing: all files of the folder.
        end: end of the query.
        without: files that do not count.
        times: modification times of the files of the last batches, by the hash of their paths. A file of an earlier
            batch counts as older than the oldest file that is left.

    Raises:
        UserError: BACKFILL_RECORDS_GONE, unless all of them are from other times than the wanted ones.
    """
    hashes = end.seen if without is None else end.seen - without.seen
    named = hashes - {hash_of(file.path) for file in listing}
    older = end.older - sum(file.modified < end.horizon for file in listing)
    oldest = min((file.modified for file in listing), default=None)
    is_lost = any(_is_wanted(times[name], request) for name in named if name in times)
    if older or not named <= times.keys():
        is_lost = is_lost or request.since is None or oldest is None or oldest >= request.since * NANOSECONDS
    if is_lost:
        raise request.gone(None if oldest is None else oldest // NANOSECONDS)
    return len(named) + older


def _is_wanted(modified: int, request: PastRequest) -> bool:
    is_old = request.since is not None and modified < request.since * NANOSECONDS
    return not (is_old or (request.until is not None and modified >= request.until * NANOSECONDS))


def _amount(files: Sequence[FileFacts]) -> Amount:
    return Amount(files=len(files), bytes=sum(file.size for file in files))


def _shown(amount: Amount) -> str:
    return f"{amount.files:,} files ({(amount.bytes or 0) / 1e6:,.1f} MB)"
