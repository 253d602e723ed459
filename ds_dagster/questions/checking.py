"""Checks the SELECTs in a project's files: they are bound like questions, but not answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, ProjectError
from ds_dagster.plan.binding.every_mistake import every_mistake
from ds_dagster.project.load import LoadedProject
from ds_dagster.questions.selecting import BoundSelect
from ds_dagster.sql.source import SourceText
from ds_dagster.sql.statements import Interactive, SelectBody


def question_mistakes(project: LoadedProject) -> tuple[Diagnostic, ...]:
    """Mistakes in the SELECTs of a project's files, without mistakes of relations, which are reported elsewhere."""
    return tuple(mistake for statement in project.asked for mistake in _mistakes(project, statement))


def _mistakes(project: LoadedProject, statement: Interactive) -> Iterator[Diagnostic]:
    body, context = statement.body, statement.origin.context
    assert isinstance(body, SelectBody)
    settings = project.settings
    settings = replace(
        settings, database=context.database or settings.database, schema=context.schema or settings.schema
    )
    binder = BoundSelect(replace(project, settings=settings), body.span, {})
    mistakes: list[Diagnostic] = []
    try:
        binder.bind(body.tree, top=True)
    except ProjectError:
        return
    except DsError as problem:
        mistakes.append(problem.diagnostic())
        tree = body.tree
        if (
            isinstance(tree, exp.Select)
            and tree.args.get("from_")
            and len(binder.scope.sources) == 1 + len(tree.args.get("joins") or ())
        ):
            mistakes += [other.diagnostic() for other in every_mistake(tree, binder.scope, mistakes)]
    for mistake in mistakes:
        yield replace(mistake, span=mistake.span or body.span, fragment=_line(statement, mistake))


def _line(statement: Interactive, mistake: Diagnostic) -> str:
    """The line of the statement with the mistake."""
    begin = statement.origin.span
    source = SourceText(begin.file, " " * (begin.column - 1) + statement.origin.text)
    line = (mistake.span or begin).line - begin.line + 1
    return source.line_text(line) if 1 <= line <= len(source.line_starts) else ""
