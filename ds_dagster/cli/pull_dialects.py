"""The neutral tree of a question → text for SQLite and for Postgres.

SQLite lacks most functions and all of our types beyond numbers and texts, so calls and casts become the functions of
``pull_functions.py`` there. Postgres has them; what means something else there is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.cli.pull_binding import SOURCE, TYPE, Question, table_name
from ds_dagster.cli.pull_functions import FUNCTIONS as INSTALLED
from ds_dagster.datatypes import ArrayType, DataType, Scalar, is_primitive
from ds_dagster.errors import error
from ds_dagster.plan.expressions import cast_type
from ds_dagster.sql.expressions import FieldAccess

Tables = Mapping[str, exp.Table]
Lower = Callable[[exp.Expression], exp.Expression]


def sqlite_text(question: Question, tables: Tables) -> str:
    """The question for SQLite.

    Args:
        question: bound.
        tables: what each relation is called there, by :func:`~ds_dagster.cli.pull_binding.table_name`.
    """
    return _lowered(_placed(question, tables), SQLITE).sql(dialect="sqlite")


def postgres_text(question: Question, tables: Tables) -> str:
    """The question for Postgres.

    Raises:
        NotYetError: QUESTION_FUNCTION_NOT_THERE.
    """
    return _lowered(_placed(question, tables), POSTGRES).sql(dialect="postgres")


def table_of(*path: str) -> exp.Table:
    """A quoted name of one or two parts."""
    parts = [exp.to_identifier(part, quoted=True) for part in path]
    return exp.Table(this=parts[-1], db=parts[0] if len(parts) > 1 else None)


def tables_of(relations: Sequence[Relation], place: Callable[[Relation], exp.Table]) -> Tables:
    """The mapping both printers take."""
    return {table_name(relation): place(relation) for relation in relations}


def _placed(question: Question, tables: Tables) -> exp.Expression:
    def place(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Table) or node.args.get("alias") is None or node.name not in tables:
            return node
        made = tables[node.name].copy()
        made.set("alias", node.args["alias"].copy())
        return made

    return question.tree.transform(place)


def _lowered(node: exp.Expression, table: Mapping[type[exp.Expression], Lower]) -> exp.Expression:
    """Children first; what takes a node's place keeps the notes on it."""
    for child in list(node.iter_expressions()):
        below = _lowered(child, table)
        if below is not child:
            child.replace(below)
    step = table.get(type(node))
    if step is None:
        return node
    made = step(node)
    if made is not node:
        made.meta.update(node.meta)
    return made


def _call(name: str, *arguments: exp.Expression) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _string(text: str) -> exp.Literal:
    return exp.Literal.string(text)


def _type_of(node: exp.Expression) -> DataType | None:
    found: DataType | None = node.meta.get(TYPE)
    return found


# --- SQLite -----------------------------------------------------------------------------------------------------------

PREFIX = "ds_"


def _sqlite_call(node: exp.Expression) -> exp.Expression:
    name = PREFIX + str(node.this).lower()
    if name not in INSTALLED:
        raise error("QUESTION_FUNCTION_NOT_THERE", name=str(node.this), type="SQLITE")
    return _call(name, *node.expressions)


def _sqlite_cast(node: exp.Expression) -> exp.Expression:
    source, target = node.meta.get(SOURCE), cast_type(node)
    if source is None and _is_decimal(target):
        return _real(node.this)
    name = "ds_try_cast" if isinstance(node, exp.TryCast) else "ds_cast"
    return _call(name, node.this, _string("" if source is None else str(source)), _string(str(target)))


def _is_decimal(type_: DataType | None) -> bool:
    return isinstance(type_, Scalar) and type_.name == "DECIMAL"


def _real(value: exp.Expression) -> exp.Expression:
    return exp.Cast(this=value, to=exp.DataType.build("REAL", dialect="sqlite"))


def _sqlite_field(node: exp.Expression) -> exp.Expression:
    return _call("ds_field", node.this, _string(node.expression.name))


def _sqlite_element(node: exp.Expression) -> exp.Expression:
    return _call("ds_element", node.this, node.expressions[0])


def _sqlite_array(node: exp.Expression) -> exp.Expression:
    return _call("ds_array", *node.expressions)


def _sqlite_shift(node: exp.Expression) -> exp.Expression:
    """``time ± INTERVAL n unit``."""
    right = node.args["expression"]
    amount, value = (right, node.this) if isinstance(right, exp.Interval) else (node.this, right)
    if not isinstance(amount, exp.Interval):
        return node
    sign = "-" if isinstance(node, exp.Sub) else "+"
    return _call("ds_shift", value, _string(sign), _string(amount.this.name), _string(amount.args["unit"].name))


def _sqlite_aggregate(node: exp.Expression) -> exp.Expression:
    """Decimals are added as decimals; SQLite would make doubles of them."""
    if not _is_decimal(node.meta.get(SOURCE)):
        return node
    return _call(f"ds_decimal_{type(node).__name__.lower()}", node.this)


def _sqlite_compared(node: exp.Expression) -> exp.Expression:
    """Decimals may be kept as text, which does not sort as a number."""
    for part in ("this", "expression", "low", "high"):
        value = node.args.get(part)
        if isinstance(value, exp.Expression) and _is_decimal(_type_of(value)):
            node.set(part, _real(value.copy()))
    return node


SQLITE: Mapping[type[exp.Expression], Lower] = MappingProxyType(
    {
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


# --- Postgres ---------------------------------------------------------------------------------------------------------


def _native(name: str) -> Callable[[Sequence[exp.Expression]], exp.Expression]:
    return lambda arguments: _call(name, *arguments)


def _strict(name: str) -> Callable[[Sequence[exp.Expression]], exp.Expression]:
    """GREATEST and LEAST give NULL when any argument is NULL; Postgres skips them."""

    def made(arguments: Sequence[exp.Expression]) -> exp.Expression:
        nulls = exp.or_(*[exp.Is(this=a.copy(), expression=exp.Null()) for a in arguments])
        return exp.Case(ifs=[exp.If(this=nulls, true=exp.Null())], default=_call(name, *arguments))

    return made


def _concatenated(arguments: Sequence[exp.Expression]) -> exp.Expression:
    joined = arguments[0]
    for argument in arguments[1:]:
        joined = exp.DPipe(this=joined, expression=argument)
    return exp.Paren(this=joined)


def _as_type(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Cast(this=value, to=exp.DataType.build(name, dialect="postgres"))


def _extracted(arguments: Sequence[exp.Expression]) -> exp.Expression:
    part = _call("date_part", _string(arguments[0].name.lower()), arguments[1])
    return _as_type(_call("floor", part), "bigint")


def _sha256(arguments: Sequence[exp.Expression]) -> exp.Expression:
    return _call("encode", _call("sha256", _call("convert_to", arguments[0], _string("UTF8"))), _string("hex"))


POSTGRES_FUNCTIONS: Mapping[str, Callable[[Sequence[exp.Expression]], exp.Expression]] = MappingProxyType(
    {
        **{name: _native(name) for name in ("COALESCE", "NULLIF", "UPPER", "LOWER", "LTRIM", "RTRIM", "CHAR_LENGTH")},
        **{name: _native(name) for name in ("REPLACE", "ABS", "FLOOR", "CEIL", "MOD", "MD5", "CARDINALITY", "ROUND")},
        "TRIM": _native("BTRIM"),
        "GREATEST": _strict("GREATEST"),
        "LEAST": _strict("LEAST"),
        "CONCAT": _concatenated,
        "CURRENT_TIMESTAMP": _native("now"),
        "UUID": lambda _: _as_type(_call("gen_random_uuid"), "text"),
        "POSITION": lambda arguments: _call("strpos", arguments[1], arguments[0]),
        "EXTRACT": _extracted,
        "SHA256": _sha256,
    }
)
"""Functions that mean the same there."""


def _postgres_call(node: exp.Expression) -> exp.Expression:
    name = str(node.this)
    build = POSTGRES_FUNCTIONS.get(name)
    if build is None:
        raise error("QUESTION_FUNCTION_NOT_THERE", name=name, type="POSTGRESQL")
    return build(node.expressions)


def _postgres_field(node: exp.Expression) -> exp.Expression:
    """Structs are ``jsonb``."""
    return _from_json(node, node.expression.name)


def _postgres_element(node: exp.Expression) -> exp.Expression:
    container = _type_of(node.this)
    if isinstance(container, ArrayType) and is_primitive(container.element):
        return exp.Bracket(this=node.this, expressions=list(node.expressions), offset=1)
    return _from_json(node, node.expressions[0].name)


def _from_json(node: exp.Expression, key: str) -> exp.Expression:
    type_ = _type_of(node)
    if type_ is None or not is_primitive(type_):
        return _call("jsonb_extract_path", node.this, _string(key))
    return _as_type(_call("jsonb_extract_path_text", node.this, _string(key)), POSTGRES_TYPES[str(type_).split("(")[0]])


POSTGRES_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "boolean", "TINYINT": "smallint", "SMALLINT": "smallint", "INTEGER": "integer", "BIGINT": "bigint",
        "FLOAT": "real", "DOUBLE": "double precision", "DECIMAL": "numeric", "VARCHAR": "text", "DATE": "date",
        "TIME": "time", "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamptz", "VARBINARY": "bytea",
    }
)  # fmt: skip


def _postgres_cast(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.TryCast):
        raise error("QUESTION_FUNCTION_NOT_THERE", name="TRY_CAST", type="POSTGRESQL")
    return node


POSTGRES: Mapping[type[exp.Expression], Lower] = MappingProxyType(
    {
        exp.Anonymous: _postgres_call,
        exp.TryCast: _postgres_cast,
        FieldAccess: _postgres_field,
        exp.Bracket: _postgres_element,
    }
)
