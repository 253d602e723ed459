"""What a test case file says, as records."""

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
    """One record of a ``send``. ``key`` and ``value``: bytes, None, text as it is, anything else travels as JSON;
    ``at``: epoch milliseconds of the record's own timestamp, None = the newest moment the case has named."""

    key: Any = None
    value: Any = None
    at: int | None = None
    partition: str = "0"


@dataclass(frozen=True, slots=True)
class Send:
    """Records for one topic, in ``batches`` batches of about the same size. ``store``: where names are ambiguous;
    ``generate``: a query of Spark that makes the records instead, in ``partition`` unless it says another."""

    span: Span
    topic: str
    records: tuple[SentRecord, ...]
    store: str = ""
    batches: int = 1
    generate: str = ""
    partition: str = "0"


@dataclass(frozen=True, slots=True)
class SendTogether:
    """Records for several topics, which every query reads in one batch. The sends have one batch each."""

    span: Span
    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Advance:
    """Event time moves on all sources: nothing stamped before ``to`` (epoch milliseconds) will come on time."""

    span: Span
    to: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The stores' clock moves by ``millis`` (rows of views age); event time does not, and nobody waits."""

    span: Span
    millis: int


@dataclass(frozen=True, slots=True)
class Restart:
    """All queries stop between two batches and start again from their checkpoints."""

    span: Span


@dataclass(frozen=True, slots=True)
class Crash:
    """The step before it meets crashes in every query.

    ``before_commit``: each batch of the step once dies after its sink wrote (of several after the first and after the
    last), before Spark's commit, and is replayed.
    ``after_commit``: the query dies behind the commit of each batch of the step, before the next one has written.
    """

    span: Span
    at: CrashPoint


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a relation, or the raw records of a topic, must hold.

    Attributes:
        span: where it is written.
        relation: name of the relation, empty for a topic.
        topic, store: raw records: ``rows`` then hold ``key`` and ``value`` (and ``partition``, ``at`` if written).
        rows: expected, None where they are in ``file``.
        file: golden file, JSON lines.
        ordered: the order counts.
        columns: ``subset``: only the columns the rows name count.
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
    """``expect`` between steps: holds at this moment."""

    span: Span
    expectations: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """How compiling fails; with ``query``: the condition that query ends with while it runs.

    ``line`` counts inside the SQL text, None = anywhere.
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
        expectations: hold at the end.
        error: instead of, or for a running query beside, the expectations.
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
    """One thing that is not as the case says: place in the case file, and text for a person."""

    text: str
    span: Span | None = None
    relation: str = ""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of a case. ``written``: golden files that ``update`` rewrote."""

    path: Path
    title: str
    seconds: float
    failures: tuple[Failure, ...] = ()
    written: tuple[Path, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything is as the case says."""
        return not self.failures
