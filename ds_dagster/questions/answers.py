"""The answer to a question over views and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_dagster.project.load import LoadedProject
from ds_dagster.questions.binding import Question, bind_question
from ds_dagster.questions.engine import QuestionEngine
from ds_dagster.questions.following import check_endless, is_endless
from ds_dagster.questions.tables import read_tables
from ds_dagster.questions.values import Row, json_rows
from ds_dagster.sql.script import parse_select

if TYPE_CHECKING:
    import pyarrow


def ask(project: LoadedProject, question: Question) -> pyarrow.Table:
    """The answer from views and tables, of one store or several.

    Args:
        project: loaded.
        question: over views and tables only.

    Returns:
        A table with the question's columns; TIMESTAMP_LTZ in UTC.

    Raises:
        NotYetError: QUESTION_STORE_UNREADABLE, QUESTION_FUNCTION_NOT_THERE.
        UserError: VIEW_MISSING, TABLE_NOT_LOADED, QUESTION_TOO_LARGE, QUESTION_FAILED.
        ExternalError: VIEW_UNREADABLE, STORE_….
    """
    with QuestionEngine() as engine:
        statement = engine.prepare(question)
        return engine.answer(statement, read_tables(project, question))


def ask_rows(project: LoadedProject, question: Question) -> list[Row]:
    """The same as rows of JSON values by name."""
    return json_rows(question.columns, ask(project, question))


def ask_text(project: LoadedProject, sql: str) -> pyarrow.Table:
    """The same for the text of a SELECT.

    Raises:
        UserError: QUESTION_WITHOUT_END over streams and changelogs, and what :func:`ask` and the binder raise.
    """
    question = bind_question(project, parse_select(sql.strip().rstrip(";"), "<query>"))
    if is_endless(question):
        check_endless(question, sql, always=True)
    return ask(project, question)
