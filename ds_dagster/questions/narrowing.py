"""The part of a question that its stores compute: selected columns, comparisons with constants, and the limit.

DuckDB computes everything again, so a store may return more rows than requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.catalog.reading.wanted import EVERYTHING, Comparison, Operator, Wanted
from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import INTEGERS, DataType, Scalar
from ds_dagster.functions.values.casts import cast, in_utc
from ds_dagster.plan.expressions.arithmetic import widens
from ds_dagster.plan.expressions.binder import cast_type
from ds_dagster.questions.binding import Question, limit_of
from ds_dagster.questions.relations import table_name
from ds_dagster.questions.trees import Aggregated, type_of

OPERATORS: Mapping[type[exp.Expression], Operator] = MappingProxyType(
    {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
)
TURNED: Mapping[Operator, Operator] = MappingProxyType(
    {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "in": "in"}
)
ORDERED = (*INTEGERS, "DECIMAL", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
"""Types that every store orders alike."""
MOST_VALUES = 1000
"""Most constants of IN that are passed to a store."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Columns and rows to read from one relation.

    Attributes:
        columns: names, in the relation's order; at least one.
        wanted: comparisons and limit of the rows.
    """

    columns: tuple[str, ...]
    wanted: Wanted


class NotConstantError(Exception):
    """A tree is not a constant."""


def readings(question: Question) -> Mapping[str, Reading]:
    """Name of a table in a question's tree → what the question reads from it."""
    sources = [(select, source) for select in question.tree.find_all(exp.Select) for source in _sources(select)]
    tables = [(select, source) for select, source in sources if isinstance(source, exp.Table)]
    by_name = {table_name(relation): relation for relation in question.relations}
    reads = {}
    for name, relation in by_name.items():
        uses = [(select, table.alias) for select, table in tables if table.name == name]
        used = {column for _, alias in uses for column in _columns(question.tree, alias)}
        names = tuple(column.name for column in relation.columns if column.name in used)
        only = uses[0] if len(uses) == 1 else None
        wanted = EVERYTHING if only is None else _wanted(question, only[0], only[1], relation)
        reads[name] = Reading(names or (relation.columns[0].name,), wanted)
    return reads


def _sources(select: exp.Select) -> list[exp.Expression]:
    if select.args.get("from_") is None:
        return []
    return [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]


def _columns(tree: exp.Expr, alias: str) -> Iterator[str]:
    return (column.name for column in tree.find_all(exp.Column) if column.table == alias)


def _wanted(question: Question, select: exp.Select, alias: str, relation: Relation) -> Wanted:
    """Conditions of the only SELECT that reads a relation; empty if an outer join may pad its rows with NULL."""
    types = {column.name: column.type for column in relation.columns}
    where = select.args.get("where")
    if where is None or _is_padded(select, alias):
        return Wanted((), _limit(question, select) if where is None else None)
    comparisons, rest = [], False
    for condition in _conjuncts(where.this):
        comparison = _comparison(condition, alias, types)
        if comparison is None:
            rest = True
        else:
            comparisons.append(comparison)
    return Wanted(tuple(comparisons), None if rest else _limit(question, select))


def _is_padded(select: exp.Select, alias: str) -> bool:
    """Whether joined rows may have NULL in place of this side: then a condition is not about the table's rows only."""
    sides = {str(join.args.get("side") or "").upper() for join in select.args.get("joins") or ()}
    return bool(sides & {"FULL", "RIGHT"}) or (bool(sides) and select.args["from_"].this.alias != alias)


def _limit(question: Question, select: exp.Select) -> int | None:
    """Number of rows to read, LIMIT plus OFFSET; None if the question orders, groups or joins, or has no LIMIT."""
    if select is not question.tree or any(
        select.args.get(part) for part in ("joins", "group", "having", "order", "distinct")
    ):
        return None
    if select.find(Aggregated, exp.Window, exp.Subquery, exp.Exists):
        return None
    limit = limit_of(select)
    offset = select.args.get("offset")
    return None if limit is None else limit + (int(str(offset.expression.this)) if offset is not None else 0)


def _conjuncts(tree: exp.Expression) -> Iterator[exp.Expression]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            pending.append(node.this)
        elif isinstance(node, exp.And):
            pending += [node.expression, node.this]
        else:
            yield node


def _comparison(node: exp.Expression, alias: str, types: Mapping[str, DataType]) -> Comparison | None:
    try:
        if isinstance(node, exp.In) and not node.args.get("query"):
            return _compared(node.this, "in", node.expressions, alias, types)
        operator = OPERATORS.get(type(node))
        if operator is None:
            return None
        left, right = node.this, node.expression
        if isinstance(_plain(left), exp.Column):
            return _compared(left, operator, [right], alias, types)
        return _compared(right, TURNED[operator], [left], alias, types)
    except NotConstantError:
        return None


def _compared(
    side: exp.Expression,
    operator: Operator,
    constants: Sequence[exp.Expression],
    alias: str,
    types: Mapping[str, DataType],
) -> Comparison | None:
    column = _plain(side)
    if not isinstance(column, exp.Column) or column.table != alias or column.name not in types:
        return None
    type_ = types[column.name]
    if not isinstance(type_, Scalar) or len(constants) > MOST_VALUES:
        return None
    values = tuple(_fitting(_value(constant), type_) for constant in constants)
    exact = type_.name == "VARCHAR" and operator in ("=", "in")
    if not exact and type_.name not in ORDERED:
        return None
    return Comparison(column.name, type_, operator, values)


def _plain(node: exp.Expression) -> exp.Expression:
    """The expression without parentheses and without casts that change no value (whole numbers to a wider type)."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and _widens(node)):
        node = node.this
    return node


def _widens(node: exp.Cast) -> bool:
    source, target = type_of(node.this), cast_type(node)
    if not isinstance(source, Scalar) or not isinstance(target, Scalar):
        return False
    return source.name in INTEGERS and target.name in (*INTEGERS, "DECIMAL") and widens(source, target)


def _fitting(value: Any, type_: Scalar) -> Any:
    """A constant that is compared with a column of a type.

    Raises:
        NotConstantError: the comparison would need another type.
    """
    kinds: Mapping[str, tuple[type, ...]] = {
        **dict.fromkeys((*INTEGERS, "DECIMAL"), (int, Decimal)), "VARCHAR": (str,), "DATE": (date,),
        "TIMESTAMP": (datetime,), "TIMESTAMP_LTZ": (datetime,),
    }  # fmt: skip
    if isinstance(value, bool) or not isinstance(value, kinds.get(type_.name, ())):
        raise NotConstantError
    if isinstance(value, datetime):
        if type_.name == "DATE":
            raise NotConstantError
        return in_utc(value)
    return value


def _value(node: exp.Expression) -> Any:
    """The value of a constant.

    Raises:
        NotConstantError: the tree is not a constant.
    """
    if isinstance(node, exp.Paren):
        return _value(node.this)
    if isinstance(node, exp.Neg):
        inner = _value(node.this)
        if not isinstance(inner, int | Decimal) or isinstance(inner, bool):
            raise NotConstantError
        return -inner
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if type(node) is exp.Cast and isinstance(node.this, exp.Literal | exp.Neg):
        source = type_of(node.this)
        inner = _value(node.this)
        if source is None:
            return inner if isinstance(cast_type(node), Scalar) and cast_type(node).name in INTEGERS else _refuse()  # type: ignore[union-attr]
        try:
            return cast(inner, source, cast_type(node))
        except (ValueError, ArithmeticError):
            raise NotConstantError from None
    return _refuse()


def _number(text: str) -> int | Decimal:
    return _refuse() if "e" in text.lower() else Decimal(text) if "." in text else int(text)


def _refuse() -> Any:
    raise NotConstantError
