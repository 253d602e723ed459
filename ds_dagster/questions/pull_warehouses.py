"""Questions in the SQL of warehouses and of DataFusion, which reads Delta tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.questions.binding import SOURCE
from ds_dagster.questions.pull_dialects import call, string
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
from ds_dagster.sql.expressions import FieldAccess
from ds_dagster.stores.databricks import Databricks
from ds_dagster.stores.delta import Delta
from ds_dagster.stores.snowflake import Snowflake

COMMON: Mapping[str, Build] = MappingProxyType(
    {
        **{name: native(name) for name in ("COALESCE", "NULLIF", "UPPER", "LOWER", "REPLACE", "ABS", "FLOOR", "CEIL")},
        **{name: native(name) for name in ("ROUND", "MD5", "GREATEST", "LEAST")},
    }
)
TIMES = ("timestamp", "timestamp_ltz")


def _modulo(arguments: Arguments) -> exp.Expression:
    return exp.Paren(this=exp.Mod(this=arguments[0], expression=arguments[1]))


def _date_part(arguments: Arguments) -> exp.Expression:
    part = call("date_part", string(arguments[0].name.lower()), arguments[1])
    return exp.Cast(this=call("floor", part), to=exp.DataType.build("BIGINT"))


def _of_one_text(name: str) -> Build:
    """TRIM and its kin with blanks only: what a second argument means differs."""
    return lambda arguments: call(name, *arguments) if len(arguments) == 1 else "with characters of its own"


# --- Snowflake --------------------------------------------------------------------------------------------------------


def _whole_quotient(node: exp.Expression) -> exp.Expression:
    """Snowflake divides to six digits and rounds; what is left without the remainder divides exactly."""
    left, right = exp.Paren(this=node.this), exp.Paren(this=node.expression)
    remainder = exp.Mod(this=left.copy(), expression=right.copy())
    exact = exp.Paren(this=exp.Sub(this=left, expression=remainder))
    quotient = exp.Paren(this=exp.Div(this=exact, expression=right))
    return exp.Cast(this=quotient, to=exp.DataType.build("BIGINT"))


def _mean(node: exp.Expression) -> exp.Expression:
    """AVG of whole numbers is a DOUBLE in the dialect; Snowflake's has six digits."""
    if family(node.meta.get(SOURCE)) != "integer" or isinstance(node.this, exp.Distinct):
        return node
    return exp.Avg(this=exp.Cast(this=node.this, to=exp.DataType.build("DOUBLE")))


def _escaped(node: exp.Expression) -> exp.Expression:
    """LIKE with the dialect's escape sign, which Snowflake lacks by default."""
    return exp.Escape(this=node.copy(), expression=string("\\"))


SNOWFLAKE = Engine(
    name=Snowflake.name,
    dialect="snowflake",
    types=MappingProxyType(
        {
            "BOOLEAN": "BOOLEAN", "TINYINT": "SMALLINT", "SMALLINT": "SMALLINT", "INTEGER": "INT", "BIGINT": "BIGINT",
            "FLOAT": "DOUBLE", "DOUBLE": "DOUBLE", "DECIMAL": "DECIMAL", "VARCHAR": "VARCHAR", "DATE": "DATE",
            "TIME": "TIME", "TIMESTAMP": "TIMESTAMPNTZ", "TIMESTAMP_LTZ": "TIMESTAMPLTZ", "VARBINARY": "BINARY",
        }
    ),
    functions=MappingProxyType(
        {
            **COMMON,
            "CHAR_LENGTH": native("LENGTH"),
            "CONCAT": concatenated,
            "CURRENT_TIMESTAMP": native("CURRENT_TIMESTAMP"),
            "EXTRACT": _date_part,
            "MOD": _modulo,
            "POSITION": native("POSITION"),
            "SHA256": lambda arguments: call("SHA2", *arguments, exp.Literal.number(256)),
            "SUBSTRING": substring("SUBSTR"),
            "UUID": native("UUID_STRING"),
            **{name: _of_one_text(name) for name in ("TRIM", "LTRIM", "RTRIM")},
        }
    ),
    nodes=MappingProxyType({exp.IntDiv: _whole_quotient, exp.Avg: _mean, exp.Like: _escaped}),
    casts=MappingProxyType(
        {(source, "integer"): lambda value: call("TRUNC", value) for source in ("float", "decimal")}
    ),
    refused_casts=frozenset({(source, "text") for source in (*TIMES, "float", "decimal")}),
)  # fmt: skip
"""Parts of STRUCT, MAP and ARRAY are not asked for: they are VARIANT there."""


# --- Databricks -------------------------------------------------------------------------------------------------------


def _spark_split(arguments: Arguments) -> exp.Expression | str:
    text, separator, position = arguments
    written = literal_of(separator)
    if not written:
        return "by a separator that is not a literal"
    quoted = "".join(f"[{sign}]" if sign not in "\\^" else f"\\{sign}" for sign in written)
    return call("GET", call("SPLIT", text, string(quoted)), position)


def _spark_field(node: exp.Expression) -> exp.Expression:
    return exp.Dot(this=exp.Paren(this=node.this), expression=exp.to_identifier(node.expression.name, quoted=True))


def _spark_element(node: exp.Expression) -> exp.Expression:
    return call("TRY_ELEMENT_AT", node.this, *node.expressions)


DATABRICKS = Engine(
    name=Databricks.name,
    dialect="databricks",
    types=MappingProxyType(
        {
            "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INTEGER": "INT", "BIGINT": "BIGINT",
            "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "DECIMAL": "DECIMAL", "VARCHAR": "STRING", "DATE": "DATE",
            "TIME": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP", "VARBINARY": "BINARY",
        }
    ),
    functions=MappingProxyType(
        {
            **COMMON,
            "CARDINALITY": native("CARDINALITY"),
            "CHAR_LENGTH": native("CHAR_LENGTH"),
            "CONCAT": concatenated,
            "CURRENT_TIMESTAMP": native("CURRENT_TIMESTAMP"),
            "DATE_FORMAT": native("DATE_FORMAT"),
            "EXTRACT": _date_part,
            "FROM_UNIXTIME": native("FROM_UNIXTIME"),
            "GREATEST": strict("GREATEST"),
            "LEAST": strict("LEAST"),
            "MOD": _modulo,
            "POSITION": native("LOCATE"),
            "SHA256": lambda arguments: call("SHA2", *arguments, exp.Literal.number(256)),
            "SPLIT_INDEX": _spark_split,
            "SUBSTRING": substring("SUBSTR"),
            "UUID": native("UUID"),
            **{name: _of_one_text(name) for name in ("TRIM", "LTRIM", "RTRIM")},
        }
    ),
    nodes=MappingProxyType({FieldAccess: _spark_field, exp.Bracket: _spark_element}),
    tries=lambda value, name: exp.TryCast(this=value, to=exp.DataType.build(name, dialect="databricks")),
    sized=("DECIMAL",),
)  # fmt: skip


# --- DataFusion -------------------------------------------------------------------------------------------------------


def _divided(node: exp.Expression) -> exp.Expression:
    """``/`` of whole numbers truncates."""
    return exp.Div(this=exp.Paren(this=node.this), expression=exp.Paren(this=node.expression), typed=True)


def _fusion_field(node: exp.Expression) -> exp.Expression:
    return exp.Bracket(this=node.this, expressions=[string(node.expression.name)], offset=1)


def _fusion_element(node: exp.Expression) -> exp.Expression:
    return exp.Bracket(this=node.this, expressions=list(node.expressions), offset=1)


DATAFUSION = Engine(
    name=Delta.name,
    dialect="postgres",
    types=MappingProxyType(
        {
            "BOOLEAN": "boolean", "TINYINT": "smallint", "SMALLINT": "smallint", "INTEGER": "integer",
            "BIGINT": "bigint", "FLOAT": "real", "DOUBLE": "double precision", "DECIMAL": "decimal", "VARCHAR": "text",
            "DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamptz",
            "VARBINARY": "bytea",
        }
    ),
    functions=MappingProxyType(
        {
            **COMMON,
            "CARDINALITY": native("cardinality"),
            "CHAR_LENGTH": native("character_length"),
            "CONCAT": concatenated,
            "CURRENT_TIMESTAMP": native("now"),
            "EXTRACT": _date_part,
            "GREATEST": strict("greatest"),
            "LEAST": strict("least"),
            "MOD": _modulo,
            "POSITION": swapped("strpos"),
            "SHA256": lambda arguments: call("encode", call("sha256", *arguments), string("hex")),
            "SPLIT_INDEX": splitted("string_to_array"),
            "SUBSTRING": substring("substr"),
            "TRIM": native("btrim"),
            "LTRIM": native("ltrim"),
            "RTRIM": native("rtrim"),
            "UUID": native("uuid"),
        }
    ),
    nodes=MappingProxyType({exp.IntDiv: _divided, FieldAccess: _fusion_field, exp.Bracket: _fusion_element}),
    refused_casts=frozenset({(source, "text") for source in (*TIMES, "float", "decimal")}),
    sized=("DECIMAL",),
)  # fmt: skip
"""Runs inside delta-rs. Source of its functions: https://datafusion.apache.org/user-guide/sql/scalar_functions.html."""
