"""Rows whose expressions fail: the expressions that ``'row.error.handling'`` covers.

It covers expressions over rows of streams: the SELECT list, WHERE, and the arguments of GROUP BY and aggregates of a
stream. A row of a changelog cannot be left out (the earlier row of its key would stay), so queries that read a
changelog are refused. Expressions over groups, and keys of joins, still fail the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from ds_dagster.catalog.declaring.inference import QueryChoices
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import ERROR_HANDLING, check_log, error_log
from ds_dagster.errors import error
from ds_dagster.plan.binding.sources import World
from ds_dagster.plan.expressions.binder import column
from ds_dagster.plan.expressions.bound_trees import changes
from ds_dagster.plan.nodes.aggregate import Aggregate, AggregateCall
from ds_dagster.plan.nodes.delta import DeltaAggregate, Weigh
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node, expressions_of
from ds_dagster.plan.nodes.rows import Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.sql.expressions import UserCall

PASSED = (exp.Column, exp.Literal, exp.Boolean, exp.Null)
"""Expressions that cannot fail."""


def row_error_log(root: Sink, choices: QueryChoices, world: World) -> Relation | None:
    """The relation that keeps rows that fail, None without one.

    Raises:
        UserError: ROW_ERRORS_OF_CHANGELOG, and those of the log. NotYetError: ROW_ERRORS_OF_PYTHON.
    """
    first = next(node for node in root.walk() if isinstance(node, Scan))
    log = error_log(first.relation, root.relation, choices.written)
    if log is not None:
        check_log(log, first.relation, world.catalog, world.kinds, records=False)
    if ignores_row_errors(choices.values):
        _check(root, choices)
    return log


def ignores_row_errors(settings: Mapping[str, str | int | bool]) -> bool:
    """Whether rows that fail are left out."""
    return settings.get(ERROR_HANDLING) in ("ignore", "ignore_and_log")


def _check(root: Sink, choices: QueryChoices) -> None:
    span = choices.written[ERROR_HANDLING].span
    for scan in (node for node in root.walk() if isinstance(node, Scan)):
        if scan.relation.is_changelog:
            raise error("ROW_ERRORS_OF_CHANGELOG", span=span, relation=scan.relation.name.name)
    for node in root.walk():
        for expression in expressions_of(node):
            for call in expression.tree.find_all(UserCall):
                if call.args["function"].language == "python":
                    raise error("ROW_ERRORS_OF_PYTHON", span=span, function=call.args["function"])


def may_fail(root: Node) -> bool:
    """Whether anything is computed in a plan, not only read and passed on."""
    return any(not isinstance(expression.tree, PASSED) for node in root.walk() for expression in expressions_of(node))


# expressions of aggregates, computed below


def computed_below(node: Node) -> Node:
    """The plan with the groups and arguments of aggregates computed in a projection below them, where a row that fails
    is still a row of a stream."""
    rebuilt = node.with_inputs(computed_below)
    if isinstance(rebuilt, Aggregate):
        return _projected(rebuilt, rebuilt.input)
    if isinstance(rebuilt, DeltaAggregate) and isinstance(rebuilt.input, Weigh) and not rebuilt.input.is_stateful:
        return _projected(rebuilt, rebuilt.input.input)
    return rebuilt


def _of_kept_rows(argument: BoundExpression, condition: BoundExpression | None) -> BoundExpression:
    """An argument that is computed for the rows that FILTER keeps: another row must not fail by it."""
    if condition is None or isinstance(argument.tree, PASSED) or changes(condition.tree):
        return argument
    tree = exp.Case(ifs=[exp.If(this=condition.tree.copy(), true=argument.tree.copy())])
    return BoundExpression(tree, argument.type, nullable=True)


def _projected(node: Aggregate | DeltaAggregate, rows: Node) -> Node:
    if rows.changelog != "append":
        return node
    computed: list[Named] = []

    def below(expression: BoundExpression) -> BoundExpression:
        if isinstance(expression.tree, exp.Column):
            return expression
        name = f"computed${len(computed)}"
        computed.append(Named(name, expression))
        return BoundExpression(column(name), expression.type, expression.nullable)

    def of_call(call: AggregateCall) -> AggregateCall:
        argument = None if call.argument is None else below(_of_kept_rows(call.argument, call.filter))
        return replace(call, argument=argument, filter=None if call.filter is None else below(call.filter))

    group = tuple(replace(named, expression=below(named.expression)) for named in node.group)
    calls = tuple(of_call(call) for call in node.calls)
    if not computed:
        return node
    passed = [Named(f.name, BoundExpression(column(f.name), f.type, f.nullable)) for f in rows.output]
    projected = Project(rows, (*passed, *computed))
    below_node: Node = projected if isinstance(node, Aggregate) else Weigh(projected)
    return replace(node, input=below_node, group=group, calls=calls)
