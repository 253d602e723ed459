"""Records that hold the content of a test case file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ds_dagster.diagnostics import Span

CrashPoint = Literal["before_commit", "after_commit"]
Columns = Literal["all", "subset"]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SentRecord:
    """One record of a ``send``. ``key`` and ``value``: bytes, None and text as they are, anything else as JSON; ``at``:
    epoch milliseconds of the record's own timestamp, None = the latest time that the case has named so far."""

    key: Any = None
    value: Any = None
    at: int | None = None
    partition: str = "0"


@dataclass(frozen=True, slots=True)
class Send:
    """Records for one topic, in ``batches`` batches of about the same size. ``store``: needed if several stores have a
    topic of this name; ``generate``: a Spark query that makes the records instead, in ``partition`` unless it selects
    a partition."""

    span: Span
    topic: str
    records: tuple[SentRecord, ...]
    store: str = ""
    batches: int = 1
    generate: str = ""
    partition: str = "0"


@dataclass(frozen=True, slots=True)
class SendTogether:
    """Records for several topics, which every query reads in one batch. Each send has one batch."""

    span: Span
    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Advance:
    """Event time moves on all sources: records stamped before ``to`` (epoch milliseconds) are late from now on."""

    span: Span
    to: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The stores' clock moves by ``millis`` (rows of views age). Event time does not move, and the test does not
    sleep."""

    span: Span
    millis: int


@dataclass(frozen=True, slots=True)
class Restart:
    """All queries stop between two batches and start again from their checkpoints."""

    span: Span


@dataclass(frozen=True, slots=True)
class Crash:
    """Every query crashes while it processes the step before.

    ``before_commit``: each batch of the step dies once after its sink wrote and before Spark's commit (with several
    sinks: after the first, a middle and the last one), and is replayed.
    ``after_commit``: the query dies after the commit of each batch of the step, before the next batch is written.
    """

    span: Span
    at: CrashPoint


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected rows of a relation, or the expected raw records of a topic.

    Attributes:
        span: where it is written.
        relation: name of the relation, empty for a topic.
        topic, store: for raw records: ``rows`` then hold ``key`` and ``value`` (and ``partition``, ``at`` if written).
        rows: expected rows, None if they are in ``file``.
        file: golden file, JSON lines.
        ordered: whether the order is compared.
        columns: ``subset`` compares only the columns that the rows name.
        history: every change of a changelog, view or table instead of the folded state; deletes hold ``__deleted``.
    """

    span: Span
    relation: str = ""
    topic: str = ""
    store: str = ""
    rows: tuple[Row, ...] | None = None
    file: Path | None = None
    ordered: bool = False
    columns: Columns = "all"
    history: bool = False


@dataclass(frozen=True, slots=True)
class ExpectNow:
    """``expect`` between steps: compared at this point."""

    span: Span
    expectations: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The condition with which compiling fails; with ``query``, the condition with which this query fails while it
    runs.

    ``line`` is a line of the SQL text, None = anywhere.
    """

    span: Span
    condition: str
    line: int | None = None
    query: str = ""


Step = Send | SendTogether | Advance | Wait | Restart | Crash | ExpectNow


@dataclass(frozen=True, slots=True)
class Case:
    """One test case.

    Attributes:
        path: its file.
        title: one line.
        texts: (file name, SQL text) pairs.
        stores: folded names of the stores that are in memory.
        steps: in order.
        expectations: compared at the end.
        error: instead of expectations if compiling fails, in addition to them for a query that fails while it runs.
    """

    path: Path
    title: str
    texts: tuple[tuple[str, str], ...]
    stores: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    error: ExpectedError | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One deviation from the case: place in the case file, and text for people."""

    text: str
    span: Span | None = None
    relation: str = ""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case. ``written``: golden files that ``update`` rewrote."""

    path: Path
    title: str
    seconds: float
    failures: tuple[Failure, ...] = ()
    written: tuple[Path, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the case has no failures."""
        return not self.failures
