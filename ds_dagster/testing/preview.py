"""A query on a sample of records: the plan of production on stores in memory, without touching a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from ds_dagster.catalog.entity import RawRecord
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.formats import FORMATS
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import ProjectError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_slice, slice_of
from ds_dagster.testing.case import Advance, Case, Expectation, Row, Send, SendTogether, SentRecord, Step
from ds_dagster.testing.compiling import TABLES
from ds_dagster.testing.golden import Golden
from ds_dagster.testing.runner import CaseRun, case_folder

_PLACE = Span("<preview>", 1)
SLICES = 4
"""How many pieces of time the records are split into, so that the query's inputs advance together."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Records of one relation, in the order of arrival."""

    relation: Relation
    records: tuple[RawRecord, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows that one relation would hold.

    Attributes:
        relation: filled by the query.
        rows: folded by the relation's key, or every change.
        failure: why the query ended early; empty if it did not.
    """

    relation: Relation
    rows: tuple[Row, ...]
    failure: str = ""

    @property
    def types(self) -> Mapping[str, DataType]:
        """Types of the relation's columns, in order."""
        return {column.name: column.type for column in self.relation.columns}


def check_previewable(query: BoundQuery) -> None:
    """Refuse a query that looks up tables or views, or reads records with a schema of a registry.

    Raises:
        NotYetError: PREVIEW_NOT_YET.
    """
    for relation in query.inputs:
        formats = {relation.value_format, relation.key.format}
        needed = next((FORMATS[name].title for name in formats if name in FORMATS), None)
        if relation.kind in TABLES:
            reason = f"looks up rows of {relation.name}, which has no records"
        elif needed is not None:
            reason = f"reads {relation.name}, whose records are {needed}"
        else:
            continue
        raise error("PREVIEW_NOT_YET", span=query.sink.span, name=query.name, reason=reason)


def steps_of(samples: Sequence[Sampled]) -> tuple[Step, ...]:
    """Records as the steps of a case: sends in pieces of time, then an advance to the newest record."""
    moments = sorted(record.timestamp_millis for sample in samples for record in sample.records)
    if not moments:
        return ()
    last = len(moments) - 1
    steps: list[Step] = []
    begin = moments[0]
    for end in dict.fromkeys(moments[last * piece // SLICES] for piece in range(1, SLICES + 1)):
        sends = []
        for sample in samples:
            piece = tuple(_sent(record) for record in sample.records if begin <= record.timestamp_millis <= end)
            if piece:
                sends.append(Send(_PLACE, sample.relation.entity, piece, store=sample.relation.store))
        if sends:
            steps.append(SendTogether(_PLACE, tuple(sends)))
        begin = end + 1
    return (*steps, Advance(_PLACE, moments[-1]))


def preview(
    spark: SparkSession,
    project: LoadedProject,
    query: BoundQuery,
    samples: Sequence[Sampled],
    *,
    history: bool = False,
) -> tuple[Preview, ...]:
    """Run one query of a project on a sample of its inputs.

    Args:
        spark: a session as :func:`ds_dagster.testing.session.shared_session` makes it.
        project: has the query.
        query: see :func:`check_previewable`.
        samples: of each relation it reads.
        history: every change instead of the rows at the end.

    Returns:
        One preview for each relation that the query fills.

    Raises:
        NotYetError: PREVIEW_NOT_YET.
        ProjectError: the query does not compile without the rest of the project.
    """
    check_previewable(query)
    with case_folder() as folder:
        alone = compile_slice(slice_of(project, query), replace(project.settings, state=folder / "state"))
        if alone.errors:
            raise ProjectError(alone.diagnostics)
        case = Case(Path("<preview>"), query.name, (), tuple(alone.catalog.stores), steps_of(samples))
        run = CaseRun(spark, case, alone, folder, Golden(False))
        previews: list[Preview] = []
        run.run(lambda: previews.extend(_looked(run, alone.queries[query.name], history)))
        return tuple(previews)


def _looked(run: CaseRun, query: BoundQuery, history: bool) -> list[Preview]:
    failure = next((str(running.failure) for running in run.queries if running.failure is not None), "")
    expectations = [(sink, Expectation(_PLACE, str(sink.name), history=history)) for sink in query.sinks]
    return [Preview(sink, tuple(run.rows(expectation)[0]), failure) for sink, expectation in expectations]


def _sent(record: RawRecord) -> SentRecord:
    return SentRecord(record.key, record.value, record.timestamp_millis, record.partition)
