"""The neutral tree of a question → text for SQLite; what is the same for every engine.

SQLite lacks most functions and all of our types beyond numbers and texts, so calls and casts become the functions of
``pull_functions.py`` there. Engines that have them stand in ``pull_postgres.py`` and ``pull_warehouses.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.errors import error
from ds_dagster.plan.expressions import cast_type
from ds_dagster.questions.binding import SOURCE, TYPE, Question, table_name
from ds_dagster.questions.pull_functions import FUNCTIONS as INSTALLED
from ds_dagster.sql.expressions import FieldAccess

Tables = Mapping[str, exp.Table | exp.Subquery]
Lower = Callable[[exp.Expression], exp.Expression]


def sqlite_text(question: Question, tables: Tables) -> str:
    """The question for SQLite.

    Args:
        question: bound.
        tables: what each relation is called there, by :func:`~ds_dagster.questions.binding.table_name`.
    """
    return lowered(placed(question, tables), SQLITE).sql(dialect="sqlite")


def table_of(*path: str) -> exp.Table:
    """A quoted name of one to three parts."""
    names: tuple[exp.Identifier | None, ...] = tuple(exp.to_identifier(part, quoted=True) for part in path)
    catalog, db, this = (None, None, *names)[-3:]
    return exp.Table(this=this, db=db, catalog=catalog)


def tables_of(relations: Sequence[Relation], place: Callable[[Relation], exp.Table | exp.Subquery]) -> Tables:
    """The mapping both printers take."""
    return {table_name(relation): place(relation) for relation in relations}


def placed(question: Question, tables: Tables) -> exp.Expression:
    """The neutral tree with the tables of a store."""

    def place(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Table) or node.args.get("alias") is None or node.name not in tables:
            return node
        made = tables[node.name].copy()
        made.set("alias", node.args["alias"].copy())
        return made

    return question.tree.transform(place)


def lowered(node: exp.Expression, table: Mapping[type[exp.Expression], Lower]) -> exp.Expression:
    """Children first; what takes a node's place keeps the notes on it."""
    for child in list(node.iter_expressions()):
        below = lowered(child, table)
        if below is not child:
            child.replace(below)
    step = table.get(type(node))
    if step is None:
        return node
    made = step(node)
    if made is not node:
        made.meta.update(node.meta)
    return made


def call(name: str, *arguments: exp.Expression) -> exp.Anonymous:
    """A call by name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def string(text: str) -> exp.Literal:
    """A text literal."""
    return exp.Literal.string(text)


def type_of(node: exp.Expression) -> DataType | None:
    """The type the binder noted on a node."""
    found: DataType | None = node.meta.get(TYPE)
    return found


# --- SQLite -----------------------------------------------------------------------------------------------------------

PREFIX = "ds_"


def _sqlite_rows(node: exp.Expression) -> exp.Expression:
    """OFFSET stands behind a LIMIT only; below zero it is none."""
    if node.args.get("offset") and not node.args.get("limit"):
        node.set("limit", exp.Limit(expression=exp.Neg(this=exp.Literal.number(1))))
    return node


def _sqlite_call(node: exp.Expression) -> exp.Expression:
    name = PREFIX + str(node.this).lower()
    if name not in INSTALLED:
        raise error("QUESTION_FUNCTION_NOT_THERE", name=str(node.this), type="SQLITE")
    return call(name, *node.expressions)


def _sqlite_cast(node: exp.Expression) -> exp.Expression:
    source, target = node.meta.get(SOURCE), cast_type(node)
    if source is None and _is_decimal(target):
        return _real(node.this)
    name = "ds_try_cast" if isinstance(node, exp.TryCast) else "ds_cast"
    return call(name, node.this, string("" if source is None else str(source)), string(str(target)))


def _is_decimal(type_: DataType | None) -> bool:
    return isinstance(type_, Scalar) and type_.name == "DECIMAL"


def _real(value: exp.Expression) -> exp.Expression:
    return exp.Cast(this=value, to=exp.DataType.build("REAL", dialect="sqlite"))


def _sqlite_field(node: exp.Expression) -> exp.Expression:
    return call("ds_field", node.this, string(node.expression.name))


def _sqlite_element(node: exp.Expression) -> exp.Expression:
    return call("ds_element", node.this, node.expressions[0])


def _sqlite_array(node: exp.Expression) -> exp.Expression:
    return call("ds_array", *node.expressions)


def _sqlite_shift(node: exp.Expression) -> exp.Expression:
    """``time ± INTERVAL n unit``."""
    right = node.args["expression"]
    amount, value = (right, node.this) if isinstance(right, exp.Interval) else (node.this, right)
    if not isinstance(amount, exp.Interval):
        return node
    sign = "-" if isinstance(node, exp.Sub) else "+"
    return call("ds_shift", value, string(sign), string(amount.this.name), string(amount.args["unit"].name))


def _sqlite_aggregate(node: exp.Expression) -> exp.Expression:
    """Decimals are added as decimals; SQLite would make doubles of them."""
    if not _is_decimal(node.meta.get(SOURCE)):
        return node
    return call(f"ds_decimal_{type(node).__name__.lower()}", node.this)


def _sqlite_compared(node: exp.Expression) -> exp.Expression:
    """Decimals may be kept as text, which does not sort as a number."""
    for part in ("this", "expression", "low", "high"):
        value = node.args.get(part)
        if isinstance(value, exp.Expression) and _is_decimal(type_of(value)):
            node.set(part, _real(value.copy()))
    return node


SQLITE: Mapping[type[exp.Expression], Lower] = MappingProxyType(
    {
        exp.Select: _sqlite_rows,
        exp.Anonymous: _sqlite_call,
        exp.Cast: _sqlite_cast,
        exp.TryCast: _sqlite_cast,
        FieldAccess: _sqlite_field,
        exp.Bracket: _sqlite_element,
        exp.Array: _sqlite_array,
        exp.Add: _sqlite_shift,
        exp.Sub: _sqlite_shift,
        **dict.fromkeys((exp.Sum, exp.Avg, exp.Min, exp.Max), _sqlite_aggregate),
        **dict.fromkeys(
            (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Ordered), _sqlite_compared
        ),
    }
)
