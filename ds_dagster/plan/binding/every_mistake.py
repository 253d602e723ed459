"""The other mistakes of a SELECT that is refused: unknown names, and conditions that cannot be evaluated.

A binder stops at the first mistake of an expression, and of a clause that other clauses depend on. After a SELECT is
refused, its parts are bound one by one, so that users see all their mistakes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.binding.sources import SourceBinder
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.joins.semi import has_query
from ds_dagster.sql.expressions import RelationRef, WindowRef

NAMES = frozenset(("UNKNOWN_COLUMN", "UNKNOWN_ALIAS", "AMBIGUOUS_COLUMN", "UNKNOWN_FUNCTION"))
"""Conditions about names, which are mistakes in every clause; other mistakes depend on the clause."""


def every_mistake(tree: exp.Select, scope: Scope, reported: Iterable[Diagnostic]) -> Iterator[DsError]:
    """Mistakes of a SELECT that are not reported yet.

    Args:
        tree: the SELECT.
        scope: with all its sources.
        reported: the mistakes reported so far; no position is reported twice.
    """
    return _new((*_names(tree, scope), *_conditions(tree, scope)), reported)


def unknown_relations(tree: exp.Select, sources: SourceBinder, reported: Iterable[Diagnostic]) -> Iterator[DsError]:
    """UNKNOWN_RELATION for sources of FROM and JOIN that were not reported yet."""
    problems: list[DsError] = []
    for node in (tree.args["from_"].this, *(join.this for join in tree.args.get("joins") or ())):
        inside = node.this if isinstance(node, WindowRef) else node
        try:
            if isinstance(inside, RelationRef) and sources.virtual(inside) is None:
                sources.relation(inside)
        except DsError as problem:
            problems.append(problem)
    return _new(problems, reported)


def _new(problems: Iterable[DsError], reported: Iterable[Diagnostic]) -> Iterator[DsError]:
    """The problems at positions that are not reported yet, one per position."""
    places = {(finding.span.line, finding.span.column) for finding in reported if finding.span}
    for problem in problems:
        span = problem.span
        if span is not None and (span.line, span.column) not in places:
            places.add((span.line, span.column))
            yield problem


def _names(tree: exp.Select, scope: Scope) -> Iterator[DsError]:
    sources = frozenset(source.alias for source in scope.sources)  # ROWTIME(alias)
    aliases = sources | {item.alias for item in tree.expressions if isinstance(item, exp.Alias)}
    joined = [join.args.get("on") for join in tree.args.get("joins") or ()]
    for clause in (*tree.expressions, tree.args.get("where"), *joined):
        yield from _in_clause(clause, scope, sources)
    for argument in ("group", "having"):
        yield from _in_clause(tree.args.get(argument), scope, aliases)


def _in_clause(clause: exp.Expression | None, scope: Scope, aliases: frozenset[str]) -> Iterator[DsError]:
    if clause is None:
        return
    binder = ExpressionBinder(scope, "the SELECT")
    for node in clause.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Column) and (isinstance(node.this, exp.Star) or _is_alias(node, aliases)):
            continue
        if isinstance(node, exp.Column | exp.Anonymous):
            yield from _refused(binder, node)


def _is_alias(node: exp.Column, aliases: frozenset[str]) -> bool:
    return not node.table and node.name in aliases


def _refused(binder: ExpressionBinder, node: exp.Expression) -> Iterator[DsError]:
    try:
        binder.bind(node)
    except DsError as problem:
        if problem.condition in NAMES:
            yield problem


def _conditions(tree: exp.Select, scope: Scope) -> Iterator[DsError]:
    """Mistakes of each part of WHERE."""
    where = tree.args.get("where")
    pending = [where.this] if where is not None else []
    binder = ExpressionBinder(scope, "WHERE")
    while pending:
        part = pending.pop()
        if isinstance(part, exp.And | exp.Or):
            pending += [part.right, part.left]
        elif isinstance(part, exp.Paren):
            pending.append(part.this)
        elif not has_query(part):
            try:
                binder.condition(part)
            except DsError as problem:
                yield problem
