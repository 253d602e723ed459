"""Types that our stateful steps cannot keep. Spark converts the schema of state to Avro, which has no TIME, and no MAP
with keys other than texts. A step that packs its rows into bytes can keep every type there, but not in its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ds_dagster.datatypes import ArrayType, DataType, MapType, Scalar, StructType, is_text
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.plan.binding.running import VALUES
from ds_dagster.plan.expressions.field_names import column_of
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct
from ds_dagster.plan.nodes.join import TimedJoin
from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.nodes.node import BoundExpression, Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN

KEEPING = (DeltaAggregate, DeltaJoin, Distinct, Over, TopN)
"""Steps for which no column of their rows may hold a TIME."""


def kept_types(root: Node, span: Span) -> Iterator[DsError]:
    """STATE_TYPE_NOT_YET for the first column or value that a step cannot keep."""
    for node in root.walk():
        for kind, name, holds in (*_columns(node), *_values(node)):
            if holds:
                yield error("STATE_TYPE_NOT_YET", span=span, type=kind, column=name)
                return


def _columns(node: Node) -> Iterator[tuple[str, str, bool]]:
    """Columns that a step keeps, as (type it cannot keep, name, whether the column holds that type)."""
    if isinstance(node, KEEPING):
        for field in (field for below in node.inputs for field in below.output):
            yield "TIME", column_of(field.name), _holds(field.type, _is_time)
    for key in _keys(node):
        yield "TIME", expression_text(key.tree, column_of), _holds(key.type, _is_time)


def _keys(node: Node) -> tuple[BoundExpression, ...]:
    if isinstance(node, TimedJoin):
        return node.left_keys
    return tuple(named.expression for named in node.partition) if isinstance(node, Match) else ()


def _values(node: Node) -> Iterator[tuple[str, str, bool]]:
    """Values that a frame from the beginning keeps instead of rows, as :func:`_columns` gives them."""
    calls = node.calls if isinstance(node, Over) and node.before < 0 else ()
    for call in calls:
        if call.argument is not None and call.function in VALUES:
            holds = _holds(call.argument.type, _is_map_of_no_texts)
            yield "MAP with keys other than texts", expression_text(call.argument.tree, column_of), holds


def _is_time(type_: DataType) -> bool:
    return isinstance(type_, Scalar) and type_.name == "TIME"


def _is_map_of_no_texts(type_: DataType) -> bool:
    return isinstance(type_, MapType) and not is_text(type_.key)


def _holds(type_: DataType, is_kind: Callable[[DataType], bool]) -> bool:
    """Whether a type, or a type inside it, is of a kind."""
    inside: tuple[DataType, ...] = ()
    if isinstance(type_, ArrayType):
        inside = (type_.element,)
    elif isinstance(type_, MapType):
        inside = (type_.key, type_.value)
    elif isinstance(type_, StructType):
        inside = tuple(field.type for field in type_.fields)
    return is_kind(type_) or any(_holds(part, is_kind) for part in inside)
