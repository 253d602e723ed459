"""The answer to a question over views and tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject
from ds_dagster.questions.binding import Question, bind_question
from ds_dagster.questions.engine import QuestionEngine
from ds_dagster.questions.following import check_endless, is_endless
from ds_dagster.questions.serving import is_taken_over, serving_relation
from ds_dagster.questions.tables import read_tables
from ds_dagster.questions.values import Row, json_rows
from ds_dagster.sql.script import parse_select
from ds_dagster.sql.statements import SelectBody

if TYPE_CHECKING:
    import pyarrow

HAND_OVER_SECONDS = 5.0
"""How long a failed question waits for a hand-over of a version to complete."""


def ask(project: LoadedProject, question: Question) -> pyarrow.Table:
    """The answer to a question over views and tables of one or several stores.

    Args:
        project: the loaded project.
        question: over views and tables only.

    Returns:
        A table with the question's columns; TIMESTAMP_LTZ in UTC.

    Raises:
        NotYetError: QUESTION_STORE_UNREADABLE, QUESTION_FUNCTION_NOT_THERE.
        UserError: VIEW_MISSING, TABLE_NOT_LOADED, QUESTION_TOO_LARGE, QUESTION_FAILED.
        ExternalError: VIEW_UNREADABLE, or a condition of a store (STORE_…).
    """
    with QuestionEngine() as engine:
        statement = engine.prepare(question)
        return engine.answer(statement, read_tables(project, question))


def ask_rows(project: LoadedProject, question: Question) -> list[Row]:
    """The answer of :func:`ask` as rows: column → JSON value."""
    return json_rows(question.columns, ask(project, question))


def ask_select(
    project: LoadedProject, body: SelectBody, question: Question, limit: int | None = None
) -> tuple[Question, pyarrow.Table]:
    """The answer, and the question that was answered: it is bound again if a version with other columns has begun to
    serve since the first binding.

    Args:
        project: the loaded project.
        body: SELECT of the question.
        question: ``body``, bound.
        limit: most rows; None for no limit.

    Raises:
        DsError: as :func:`ask`; from the binder, if the new version lacks requested columns.
    """
    try:
        return question, ask(project, question.limited(limit))
    except DsError:
        later = _bound_to_later(project, body, question)
        if later is None:
            raise
        return later, ask(project, later.limited(limit))


def _bound_to_later(project: LoadedProject, body: SelectBody, question: Question) -> Question | None:
    """The question over the versions that serve now; None if these have the same columns. Waits for a running
    hand-over, since names change in the store shortly before the journal records it."""
    end = time.monotonic() + HAND_OVER_SECONDS
    while True:
        is_under_way = any(is_taken_over(project, relation) for relation in question.relations)
        relations = tuple(serving_relation(project, project.catalog.relations[r.name]) for r in question.relations)
        if [relation.columns for relation in relations] != [relation.columns for relation in question.relations]:
            return bind_question(project, body)
        if not is_under_way or time.monotonic() > end:
            return None
        time.sleep(0.05)


def ask_text(project: LoadedProject, sql: str) -> pyarrow.Table:
    """The answer to the text of a SELECT over views and tables.

    Raises:
        UserError: QUESTION_WITHOUT_END for streams and changelogs; also raises as :func:`ask` and the binder.
    """
    body = parse_select(sql.strip().rstrip(";"), "<query>")
    question = bind_question(project, body)
    if is_endless(question):
        check_endless(question, sql, always=True)
    return ask_select(project, body, question)[1]
