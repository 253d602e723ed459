"""SELECT, TERMINATE QUERY and RESTART QUERY in ``ds sql``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds_dagster.cli.converging import HALTED
from ds_dagster.cli.shell.session import Executor, Session
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.sql.commands import ControlQuery
from ds_dagster.sql.statements import Interactive

WAIT_SECONDS = 180.0
REQUESTED_BY = "ds sql"
SETTLED = {"terminate": HALTED, "restart": ("RUNNING", "FINISHED")}
"""Verb → states that end the wait."""


def select(session: Session, statement: Interactive) -> None:
    """SELECT: one answer over views and tables, row by row over a stream or changelog."""
    from ds_dagster.cli.results.freshness import tell_freshness
    from ds_dagster.questions.answers import ask_select
    from ds_dagster.questions.binding import bind_question
    from ds_dagster.questions.following import check_endless, is_endless
    from ds_dagster.questions.values import json_rows

    assert statement.body is not None, "other questions have records of their own"
    project = session.project()
    question = bind_question(project, statement.body)
    if is_endless(question):
        check_endless(question, statement.origin.text)
        _follow(session, question)
        return
    question, answer = ask_select(project, statement.body, question)
    columns = [(name, str(type_)) for name, type_ in question.columns]
    session.output.table("SELECT", json_rows(question.columns, answer), columns)
    tell_freshness(project, question.relations)


def _follow(session: Session, question: Any) -> None:
    from ds_dagster.cli.output import note
    from ds_dagster.cli.results.watching import until_interrupted
    from ds_dagster.cli.row_output import signed_line
    from ds_dagster.questions.following import OPERATION, follow

    with until_interrupted():
        for row in follow(session.project(), question, None, note):
            text = signed_line(row)
            operation = row.pop(OPERATION, None)
            marks = {"operation": operation} if operation else {}
            session.output.line({"kind": "ROW", **marks, "row": row}, text)


def control_query(session: Session, statement: ControlQuery) -> None:
    """TERMINATE QUERY stops a query until the next start, RESTART QUERY stops and starts it with its checkpoint. Waits
    up to :data:`WAIT_SECONDS`.

    Raises:
        UserError: JOB_UNKNOWN, JOB_NOT_STARTED, QUERY_NOT_SETTLED, and the conditions of job control.
    """
    from ds_dagster.runtime.control import Control

    project, name = session.project(), str(statement.name)
    control = Control.open(session.settings)
    jobs = [status.name for status in control.statuses()]
    names = dict.fromkeys([*project.queries, *jobs])
    if name not in names:
        raise error("JOB_UNKNOWN", span=statement.name.span, name=name, nearest=did_you_mean(name, names))
    if statement.verb == "terminate":
        if name not in jobs:
            raise error("JOB_NOT_STARTED", span=statement.name.span, name=name)
        (ensured,) = control.stop([name], requested_by=REQUESTED_BY) or (None,)
    else:
        (ensured,) = control.ensure(project, [name], action="restart", requested_by=REQUESTED_BY)
        control.ensure_engines([name])
    generations = {name: ensured.generation} if ensured is not None else {}
    status = next(iter(control.wait([name], generations, WAIT_SECONDS)), control.status(name))
    if status.state not in SETTLED[statement.verb]:
        raise error("QUERY_NOT_SETTLED", name=name, state=status.state, reason=status.message or "it takes longer")
    summary = f"{name} is {status.state.lower()}"
    session.output.done(f"{statement.verb.upper()}_QUERY", "query", name, summary, state=status.state)


EXECUTORS: Mapping[type, Executor] = {Interactive: select, ControlQuery: control_query}
