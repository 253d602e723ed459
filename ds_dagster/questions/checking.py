"""Questions that are in files: bound like any question, and not asked."""

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
    """What is wrong with the SELECTs in a project's files. Mistakes of its relations are reported already."""
    return tuple(found for asked in project.asked for found in _mistakes(project, asked))


def _mistakes(project: LoadedProject, asked: Interactive) -> Iterator[Diagnostic]:
    body, context = asked.body, asked.origin.context
    assert isinstance(body, SelectBody)
    settings = project.settings
    settings = replace(
        settings, database=context.database or settings.database, schema=context.schema or settings.schema
    )
    binder = BoundSelect(replace(project, settings=settings), body.span, {})
    found: list[Diagnostic] = []
    try:
        binder.bind(body.tree, top=True)
    except ProjectError:
        return
    except DsError as problem:
        found.append(problem.diagnostic())
        tree = body.tree
        if isinstance(tree, exp.Select) and len(binder.scope.sources) == 1 + len(tree.args.get("joins") or ()):
            found += [other.diagnostic() for other in every_mistake(tree, binder.scope, found)]
    for one in found:
        yield replace(one, span=one.span or body.span, fragment=_line(asked, one))


def _line(asked: Interactive, found: Diagnostic) -> str:
    """The line of the statement a mistake is in."""
    begin = asked.origin.span
    source = SourceText(begin.file, " " * (begin.column - 1) + asked.origin.text)
    line = (found.span or begin).line - begin.line + 1
    return source.line_text(line) if 1 <= line <= len(source.line_starts) else ""
