"""The query and the sampled records for ``ds preview`` and ``ds record``."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from ds_dagster.cli.output import clock, note
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, ProjectError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, compile_texts, read_texts, store_admin
from ds_dagster.questions.following import records_of
from ds_dagster.questions.relations import resolve_typed
from ds_dagster.runtime.connecting import resolver
from ds_dagster.testing.preview import Sampled

SELECT_FILE = "<preview>"
SELECT_NAME = "ds_preview"
"""Name of a SELECT that is tried."""
_KINDS = ("STREAM", "CHANGELOG")


def query_to_try(project: LoadedProject, text: str) -> tuple[LoadedProject, BoundQuery]:
    """The query that fills a relation, or a SELECT as a query of the project. ``text``: the name of a relation, a
    SELECT, or the path of a ``.sql`` file with a SELECT.

    Raises:
        ProjectError: the SELECT has mistakes. UserError: PREVIEW_NOT_A_QUERY.
    """
    path = project.settings.root / text
    if text.endswith(".sql") and path.is_file():
        text = path.read_text(encoding="utf-8")
    text = text.strip().rstrip(";")
    if re.match(r"(select|with)\b", text, re.IGNORECASE):
        return _of_select(project, text)
    try:
        queries = project.queries_of(resolve_typed(project, text).name)
    except DsError as problem:
        if problem.condition != "UNKNOWN_RELATION":
            raise
        queries = ()
    if not queries:
        raise error("PREVIEW_NOT_A_QUERY", text=text, names=list(project.queries))
    return project, queries[0]


def _of_select(project: LoadedProject, text: str) -> tuple[LoadedProject, BoundQuery]:
    texts, _ = read_texts(project.settings)
    mistakes: list[Diagnostic] = []
    for kind in _KINDS:
        whole = compile_texts([*texts, (SELECT_FILE, f"CREATE {kind} {SELECT_NAME} AS\n{text}")], project.settings)
        mistakes = [d for d in whole.errors if d.span is not None and d.span.file == SELECT_FILE]
        if not mistakes:
            return whole, whole.queries[SELECT_NAME]
        if kind == _KINDS[0] and [d.condition for d in mistakes] == ["RELATION_KIND_MISMATCH"]:
            continue
        break
    raise ProjectError([_as_written(mistake) for mistake in mistakes])


def _as_written(mistake: Diagnostic) -> Diagnostic:
    """The diagnostic with line numbers of the SELECT as the user wrote it."""
    span = mistake.span
    return mistake if span is None else replace(mistake, span=replace(span, line=max(span.line - 1, 1), end_line=None))


def sampled(project: LoadedProject, query: BoundQuery, rows: int, seconds: int) -> tuple[Sampled, ...]:
    """The newest records of each stream and changelog that a query reads.

    Args:
        project: with the stores.
        query: whose inputs are read.
        rows: most records of each input.
        seconds: greatest age of a record.

    Raises:
        DsError: ENTITY_ABSENT, STORE_….
    """
    begin = int((time.time() - seconds) * 1000)
    samples: list[Sampled] = []
    for relation in query.inputs:
        admin = store_admin(project, relation.store, resolver(project.settings, relation.store))
        try:
            records = records_of(
                admin, relation.entity, from_beginning=True, begin=begin, ends=True, stopped=lambda: False
            )
            samples.append(Sampled(relation, tuple(deque(records, rows))))
        finally:
            admin.close()
    return tuple(samples)


def tell_samples(samples: Sequence[Sampled]) -> None:
    """Report each input's records on stderr, a line each."""
    for sample in samples:
        moments = [record.timestamp_millis / 1000 for record in sample.records]
        times = f", {clock(min(moments))} to {clock(max(moments))}" if moments else ""
        note(f"{len(sample.records):,} records of {sample.relation.store}.{sample.relation.entity}{times}")
