"""State that grows without bound: which steps keep more with every record, for a warning once per query.

The rule: a step is named when it keeps something of every *appended* row for ever. So not named are the groups of a
plain GROUP BY (as many as there are keys, which is what people ask for), the last row of each key of a changelog, and
whatever is made of changelogs only, since rows that are replaced or deleted are given back: their state is as large as
the relations are. Named are groups by a moment in time (every record may begin one), values kept one by one of appended
rows (DISTINCT, ARRAY_AGG, LISTAGG), and a join one of whose sides only ever grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ds_dagster.catalog.records import Findings
from ds_dagster.datatypes import DATE, is_temporal
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.expressions.field_names import column_of
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.aggregate import Aggregate, AggregateCall
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct, appends_only
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import Named, Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.patterns.pattern import is_unbounded

KEEP_VALUES = frozenset({"ARRAY_AGG"})
"""Aggregates that keep every value, DISTINCT or not (LISTAGG and JSON_ARRAYAGG are made of it)."""
OURS_KEEP_VALUES = KEEP_VALUES | {"APPROX_COUNT_DISTINCT"}
"""The same where no sketch will do."""


def warn_unbounded(root: Sink, findings: Findings, span: Span) -> None:
    """Warn of the steps of a plan that keep something of every appended row for ever: UNBOUNDED_STATE, once; and of
    patterns that may: PATTERN_STATE."""
    found = [text for node in root.walk() if not getattr(node, "ttl_millis", 0) for text in unbounded_state(node)]
    if found:
        findings.warn(error("UNBOUNDED_STATE", span=span, states="; ".join(dict.fromkeys(found))))
    for node in (node for node in root.walk() if isinstance(node, Match)):
        if node.within_millis is None and not node.ttl_millis and is_unbounded(node.pattern):
            first = next(below for below in node.walk() if isinstance(below, Scan))
            findings.warn(error("PATTERN_STATE", span=span, relation=first.relation.name.name))


def unbounded_state(node: Node) -> tuple[str, ...]:
    """What of the state of one node, for people, grows with every record."""
    describe = GROWING.get(type(node))
    return tuple(describe(node)) if describe else ()


def grows(node: Node) -> bool:
    """Whether the rows of a node only ever become more: none is replaced or goes."""
    return appends_only(node) if node.changelog == "weighted" else node.is_final


def _aggregate(node: Node) -> Iterator[str]:
    assert isinstance(node, Aggregate | DeltaAggregate)
    if (isinstance(node, Aggregate) and node.window is not None) or not grows(node.input):
        return
    groups = ", ".join(column_of(named.name) for named in node.group)
    keep = KEEP_VALUES if isinstance(node, Aggregate) else OURS_KEEP_VALUES
    for call in node.calls:
        if call.distinct or call.function in keep:
            yield f"{_call(call)} by {groups} keeps every value"
    yield from (f"GROUP BY {groups} keeps a group per {column_of(g.name)}" for g in node.group if _is_moment(node, g))


def _is_moment(node: Node, group: Named) -> bool:
    """Whether a group is a point in time: of a type of that kind, or the event time itself."""
    scans = [below for below in node.walk() if isinstance(below, Scan)]
    times = {scan.time.column for scan in scans} | {scan.rowtime_field for scan in scans}
    type_ = group.expression.type
    return (is_temporal(type_) and type_ != DATE) or bool(times & {group.expression.tree.name})


def _delta_join(node: Node) -> Iterator[str]:
    assert isinstance(node, DeltaJoin)
    is_test = node.kind in ("semi", "anti")
    names = ("the outer query", "the sub-select") if is_test else ("its left side", "its right side")
    rows = [name for name, side in zip(names, (node.left, node.right), strict=True) if grows(side)]
    if rows:
        yield f"{_test(node) if is_test else _join(node)} keeps every row of {' and '.join(rows)}"


def _test(node: DeltaJoin) -> str:
    """IN and EXISTS, which are the same by now; the columns of the sub-select have names of ours."""
    keys = dict.fromkeys(expression_text(key.tree, column_of) for key in node.left_keys)
    return f"{'NOT ' if node.kind == 'anti' else ''}EXISTS or IN on {', '.join(keys)}"


def _join(node: DeltaJoin) -> str:
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    texts = [(expression_text(a.tree, column_of), expression_text(b.tree, column_of)) for a, b in pairs]
    return f"the join on {' and '.join(f'{left} = {right}' for left, right in texts)}"


def _distinct(node: Node) -> Iterator[str]:
    assert isinstance(node, Distinct)
    if grows(node.input):
        yield f"DISTINCT keeps every value of {', '.join(column_of(f.name) for f in node.output)}"


def _over(node: Node) -> Iterator[str]:
    """Totals of as many partitions as there are rows."""
    assert isinstance(node, Over)
    fields = {f.name for f in node.input.output}
    if node.before < 0 and fields <= {expression.tree.name for expression in node.partition}:
        yield f"the first of each value of {', '.join(sorted(map(column_of, fields)))} is kept"


def _call(call: AggregateCall) -> str:
    argument = "*" if call.argument is None else expression_text(call.argument.tree, column_of)
    return f"{call.function}({'DISTINCT ' * call.distinct}{argument})"


GROWING: dict[type[Node], Callable[[Node], Iterator[str]]] = {
    Aggregate: _aggregate,
    DeltaAggregate: _aggregate,
    DeltaJoin: _delta_join,
    Distinct: _distinct,
    Over: _over,
}
"""Node class → what of its state grows with every record; classes that are not here keep nothing that does."""
