"""Questions in Postgres' SQL: views and tables in POSTGRESQL stores."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.catalog.io_spec import TableTarget
from ds_dagster.catalog.table_properties import CHANGED_AT
from ds_dagster.datatypes import ArrayType, Scalar, is_primitive
from ds_dagster.questions.pull_dialects import call, string, table_of, type_of
from ds_dagster.questions.pull_engines import (
    Arguments,
    Build,
    Engine,
    concatenated,
    family,
    literal_of,
    native,
    splitted,
    strict,
    substring,
    swapped,
)
from ds_dagster.questions.pull_functions import DEFAULT_PATTERN, pattern_pieces
from ds_dagster.sql.expressions import FieldAccess
from ds_dagster.stores.postgres import Postgres

DIALECT = "postgres"
TYPES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "boolean", "TINYINT": "smallint", "SMALLINT": "smallint", "INTEGER": "integer", "BIGINT": "bigint",
        "FLOAT": "real", "DOUBLE": "double precision", "DECIMAL": "numeric", "VARCHAR": "text", "DATE": "date",
        "TIME": "time", "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamptz", "VARBINARY": "bytea",
    }
)  # fmt: skip
PATTERNS: Mapping[str, str] = MappingProxyType(
    {"yyyy": "YYYY", "yy": "YY", "MM": "MM", "dd": "DD", "HH": "HH24", "hh": "HH12", "mm": "MI", "ss": "SS", "a": "AM",
     "SSS": "MS", "SSSSSS": "US", "DDD": "DDD"}
)  # fmt: skip
"""Letters of a Java date pattern → those of to_char.
Source: https://www.postgresql.org/docs/current/functions-formatting.html."""

OF_A_TEXT = "of a text"


def _as(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Cast(this=value, to=exp.DataType.build(name, dialect=DIALECT))


def _extracted(arguments: Arguments) -> exp.Expression:
    part = call("date_part", string(arguments[0].name.lower()), arguments[1])
    return _as(call("floor", part), "bigint")


def _cardinality(arguments: Arguments) -> exp.Expression | str:
    type_ = type_of(arguments[0])
    if not isinstance(type_, ArrayType):
        return "of a MAP"
    return call("cardinality" if is_primitive(type_.element) else "jsonb_array_length", *arguments)


def _sha256(arguments: Arguments) -> exp.Expression:
    return call("encode", call("sha256", call("convert_to", arguments[0], string("UTF8"))), string("hex"))


def _as_numeric(name: str) -> Build:
    """Of floats too; and halves are rounded up as in the dialect, where Postgres rounds floats to even."""

    def made(arguments: Arguments) -> exp.Expression:
        first, *others = arguments
        return call(name, _as(first, "numeric") if family(type_of(first)) == "float" else first, *others)

    return made


def _formatted_by(value: exp.Expression, pattern: exp.Expression) -> exp.Expression | str:
    """to_char by a Java pattern."""
    java = literal_of(pattern)
    if java is None:
        return "by a pattern that is not a literal"
    parts = []
    for quoted, letters, other in pattern_pieces(java):
        if letters and letters not in PATTERNS:
            return f"with {letters} in its pattern"
        parts.append(PATTERNS[letters] if letters else f'"{quoted}"' if quoted else other)
    return call("to_char", value, string("".join(parts)))


def _formatted(arguments: Arguments) -> exp.Expression | str:
    value, pattern = arguments
    return OF_A_TEXT if family(type_of(value)) == "text" else _formatted_by(value, pattern)


def _from_unixtime(arguments: Arguments) -> exp.Expression | str:
    pattern = arguments[1] if len(arguments) > 1 else string(DEFAULT_PATTERN)
    return _formatted_by(call("to_timestamp", arguments[0]), pattern)


def _unix_timestamp(arguments: Arguments) -> exp.Expression | str:
    if arguments:
        return OF_A_TEXT
    now = call("date_part", string("epoch"), call("clock_timestamp"))
    return _as(call("floor", now), "bigint")


def _to_timestamp_ltz(arguments: Arguments) -> exp.Expression | str:
    number, *precision = arguments
    if family(type_of(number)) == "text":
        return OF_A_TEXT
    if precision and precision[0].name == "0":
        return call("to_timestamp", number)
    return call("to_timestamp", exp.Paren(this=exp.Div(this=number, expression=exp.Literal.number("1000.0"))))


FUNCTIONS: Mapping[str, Build] = MappingProxyType(
    {
        **{name: native(name) for name in ("COALESCE", "NULLIF", "UPPER", "LOWER", "LTRIM", "RTRIM", "CHAR_LENGTH")},
        **{name: native(name) for name in ("REPLACE", "ABS", "FLOOR", "CEIL", "MD5")},
        "CARDINALITY": _cardinality,
        **{name: _as_numeric(name) for name in ("ROUND", "MOD")},
        "TRIM": native("BTRIM"),
        "GREATEST": strict("GREATEST"),
        "LEAST": strict("LEAST"),
        "CONCAT": concatenated,
        "SUBSTRING": substring("substr"),
        "SPLIT_INDEX": splitted("string_to_array"),
        "CURRENT_TIMESTAMP": native("now"),
        "UNIX_TIMESTAMP": _unix_timestamp,
        "FROM_UNIXTIME": _from_unixtime,
        "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
        "DATE_FORMAT": _formatted,
        "UUID": lambda _: _as(call("gen_random_uuid"), "text"),
        "POSITION": swapped("strpos"),
        "EXTRACT": _extracted,
        "SHA256": _sha256,
    }
)
"""Functions that mean the same there."""


def _field(node: exp.Expression) -> exp.Expression:
    """Structs are ``jsonb``."""
    return _json_part(node, string(node.expression.name))


def _element(node: exp.Expression) -> exp.Expression:
    container = type_of(node.this)
    if isinstance(container, ArrayType) and is_primitive(container.element):
        return exp.Bracket(this=node.this, expressions=list(node.expressions), offset=1)
    if isinstance(container, ArrayType):
        index = exp.Sub(this=node.expressions[0], expression=exp.Literal.number(1))
        return _json_part(node, _as(exp.Paren(this=index), "text"))
    return _json_part(node, node.expressions[0])


def _json_part(node: exp.Expression, key: exp.Expression) -> exp.Expression:
    type_ = type_of(node)
    if not isinstance(type_, Scalar):
        return call("jsonb_extract_path", node.this, key)
    return _as(call("jsonb_extract_path_text", node.this, key), TYPES[type_.name])


def _in_utc(value: exp.Expression) -> exp.Expression:
    return exp.AtTimeZone(this=exp.Paren(this=value), zone=string("UTC"))


def _tried(value: exp.Expression, name: str) -> exp.Expression:
    valid = call("pg_input_is_valid", value.copy(), string(name))
    return exp.Case(ifs=[exp.If(this=valid, true=_as(value, name))])


POSTGRES = Engine(
    name=Postgres.name,
    dialect=DIALECT,
    types=TYPES,
    functions=FUNCTIONS,
    nodes=MappingProxyType({FieldAccess: _field, exp.Bracket: _element}),
    casts=MappingProxyType(
        {
            ("float", "integer"): lambda value: call("trunc", value),
            ("decimal", "integer"): lambda value: call("trunc", value),
            ("boolean", "integer"): lambda value: _as(value, "integer"),
            ("timestamp_ltz", "text"): _in_utc,
            ("timestamp_ltz", "timestamp"): _in_utc,
            ("timestamp", "timestamp_ltz"): _in_utc,
            ("timestamp_ltz", "date"): _in_utc,
        }
    ),
    refused_casts=frozenset({("float", "text"), ("integer", "boolean"), ("float", "boolean"), ("decimal", "boolean")}),
    tries=_tried,
)
"""TRY_CAST needs version 16, which brought pg_input_is_valid."""


def shown_rows(target: TableTarget) -> exp.Subquery:
    """A view's rows that are not too old, by the server's clock, as a source of FROM."""
    age = exp.Interval(this=exp.Literal.string(str(target.retention_millis)), unit=exp.var("MILLISECONDS"))
    oldest = exp.Sub(this=exp.CurrentTimestamp(), expression=age)
    is_young = exp.GT(this=exp.column(exp.to_identifier(CHANGED_AT, quoted=True)), expression=oldest)
    shown = exp.select(*(exp.column(exp.to_identifier(column.name, quoted=True)) for column in target.columns))
    return shown.from_(table_of(*target.path)).where(is_young).subquery()
