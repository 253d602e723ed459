"""The figures of a job: one record from Spark's progress to the journal, ``ds ps``, JSON, DESCRIBE and Dagster.

:class:`Figures` is the only table of them. A figure is a field; the metadata of the field (:class:`Figure`) is all that
readers need: how it adds up over batches and over the queries of one relation, its unit, its names. A new figure takes
a field here, and a line in ``spark.progress.read_progress`` that reads it from a batch's report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Literal, TypeVar

OverBatches = Literal["sum", "last", "known", "apart"]
"""How a batch changes the figure of its query. ``sum``: is added; ``last``: replaces it; ``known``: replaces it unless
the batch's value is None; ``apart``: not at all, since the figure is measured independently of batches."""

OverQueries = Literal["sum", "max", "min"]
Unit = Literal["", "rows", "records", "rows/s", "s", "bytes", "moment", "by name"]
"""``moment``: seconds since the epoch, UTC. ``by name``: a mapping of figures, not a number."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one figure is.

    Attributes:
        name: outside of the code (Dagster metadata, DESCRIBE, JSON).
        meaning: one line, for people.
        unit: of its numbers.
        over_batches, over_queries: how it adds up.
        json: its name in ``ds ps --json``.
        heading: of its column in ``ds ps``; empty: no column.
        part: part of DESCRIBE QUERY that shows it; empty: none.
        stays: a restarted query that does not know it yet does not clear it.
        digits: decimal places to show.
    """

    name: str
    meaning: str
    unit: Unit
    over_batches: OverBatches
    over_queries: OverQueries
    json: str
    heading: str = ""
    part: Literal["metrics", "state", ""] = "metrics"
    stays: bool = False
    digits: int = 3


def _figure(
    default: Any,
    meaning: str,
    unit: Unit,
    over_batches: OverBatches,
    over_queries: OverQueries,
    *,
    name: str = "",
    json: str = "",
    **more: Any,
) -> Any:
    return field(default=default, metadata={"figure": (name, meaning, unit, over_batches, over_queries, json, more)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of a batch, of a running query, of a job. None: not known."""

    batch: int | None = _figure(
        None, "number of the last finished batch", "", "last", "max", heading="batch", stays=True
    )
    batches: int = _figure(0, "batches finished since the start", "", "sum", "sum")
    rows: int = _figure(0, "rows read since the start", "rows", "sum", "sum", heading="rows in")
    rows_written: int | None = _figure(None, "rows written since the start", "rows", "sum", "sum", heading="rows out")
    rows_per_second: float = _figure(
        0.0, "rows read a second, over the last batches", "rows/s", "apart", "sum", json="rows_per_s",
        heading="rows/s", digits=1,
    )  # fmt: skip
    fastest: float | None = _figure(
        None, "rows read a second in the fastest batch since the start", "rows/s", "apart", "sum", stays=True, digits=1
    )
    lag_records: int | None = _figure(None, "records not read yet", "records", "apart", "sum", heading="lag")
    lag_seconds: float | None = _figure(
        None, "age of the oldest record that is not read yet", "s", "apart", "max", heading="lag s"
    )
    watermark: float | None = _figure(
        None, "event time of the query", "moment", "known", "min", heading="watermark", part="state"
    )
    state_rows: int = _figure(0, "rows kept by stateful operators", "rows", "last", "sum", part="state")
    state_bytes: int = _figure(0, "memory of stateful operators", "bytes", "last", "sum", part="state")
    late_rows: int = _figure(0, "rows too late for their window", "rows", "sum", "sum", heading="late")
    bad_records: int = _figure(0, "records left out because they cannot be read", "records", "sum", "sum")
    unknown_columns: int | None = _figure(
        None, "declared columns that are in no schema or table of their source now", "", "apart", "sum"
    )
    violations: Mapping[str, Any] | None = _figure(
        None, "rows that violate a constraint, by constraint, and where one of them is", "by name", "sum", "sum"
    )
    lost_records: int = _figure(0, "records that were gone before they were read", "records", "last", "sum")
    progressed: float | None = _figure(
        None, "end of the last batch with rows", "moment", "apart", "max", name="last_rows", stays=True
    )
    caught_up: float | None = _figure(
        None, "everything that existed in its sources at this moment is processed", "moment", "apart", "min",
        part="state",
    )  # fmt: skip
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """``{"sources": {source: {figure: number or text}}}``: figures of each source, and other facts it reports."""

    def figures(self) -> dict[str, Any]:
        """Field → value, of the figures alone."""
        return {item.name: getattr(self, item.name) for item in fields(Figures)}


def _table() -> Mapping[str, Figure]:
    figures: dict[str, Figure] = {}
    for item in fields(Figures):
        if "figure" in item.metadata:
            name, meaning, unit, batches, queries, other, more = item.metadata["figure"]
            shown = name or item.name
            figures[item.name] = Figure(shown, meaning, unit, batches, queries, other or shown, **more)
    return MappingProxyType(figures)


FIGURES: Mapping[str, Figure] = _table()
"""Field → what it is, in the order in which they are shown."""

T = TypeVar("T", bound=Figures)


def added(old: Any, new: Any) -> Any:
    """The sum of two values of a figure: of numbers, or of mappings name by name; of texts the newer one."""
    if isinstance(old, Mapping):
        return {**old, **{name: added(old[name], value) if name in old else value for name, value in new.items()}}
    return new if isinstance(new, str) else old + new


def _total(values: Iterable[Any]) -> Any:
    return reduce(added, values)


_FOLDS: Mapping[OverQueries, Callable[[Iterable[Any]], Any]] = {"sum": _total, "max": max, "min": min}


def after_batch(before: T, batch: Figures) -> T:
    """Figures of a query after one more batch."""
    changes: dict[str, Any] = {}
    for name, figure in FIGURES.items():
        old, new = getattr(before, name), getattr(batch, name)
        if figure.over_batches == "sum":
            changes[name] = old if new is None else new if old is None else added(old, new)
        elif figure.over_batches == "last" or (figure.over_batches == "known" and new is not None):
            changes[name] = new
    return replace(before, **changes)


def taken_over(job: T, query: Figures) -> T:
    """A job's record with the figures of its running query."""
    figures = query.figures()
    staying = {name for name, figure in FIGURES.items() if figure.stays and figures[name] is None}
    return replace(job, **{name: value for name, value in figures.items() if name not in staying})


def over_queries(records: Iterable[Figures]) -> Mapping[str, int | float]:
    """Field → figure of a relation that several queries fill; what none of them knows is left out."""
    all_records, folded = tuple(records), {}
    for name, figure in FIGURES.items():
        values = [value for record in all_records if (value := getattr(record, name)) is not None]
        if values:
            folded[name] = rounded(figure, _FOLDS[figure.over_queries](values))
    return folded


def rounded(figure: Figure, value: Any) -> Any:
    """The value as it is shown: rounded to the figure's digits; moments as they are."""
    return round(value, figure.digits) if isinstance(value, float) and figure.unit != "moment" else value


def to_json(figures: Figures) -> str:
    """The JSON text that the journal stores; figures at their defaults are left out."""
    empty = Figures().figures()
    values = {name: value for name, value in figures.figures().items() if value != empty[name]}
    return json.dumps(values | ({"details": dict(figures.details)} if figures.details else {}), sort_keys=True)


def from_json(text: str) -> dict[str, Any]:
    """Field → value. Figures that this version does not know are left out, missing ones have their defaults."""
    names = {item.name for item in fields(Figures)}
    return {name: value for name, value in json.loads(text or "{}").items() if name in names}
