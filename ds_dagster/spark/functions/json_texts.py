"""How Spark computes the functions of ``functions/json_texts.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.functions.json_path import JAVA_PATH, LAX
from ds_dagster.functions.json_texts import JSON_TEXTS
from ds_dagster.spark.functions.calls import Arguments, Scalar, plain

NESTED_TEXT = "^[\\[{]"


def _sure(read: Callable[[Column, Column], Column]) -> Scalar:
    """A path that is a constant was read when it was bound; one that is none gives NULL."""

    def made(arguments: Arguments) -> Column:
        text, path, *_ = arguments.columns
        if arguments.literal(1) is not None:
            return read(text, path)
        plain_path = sf.regexp_replace(path, LAX, "")
        known = sf.when(sf.rlike(plain_path, sf.lit(JAVA_PATH)), plain_path).otherwise(sf.lit("$"))
        return sf.when(sf.rlike(plain_path, sf.lit(JAVA_PATH)), read(text, known))

    return made


def _at(text: Column, path: Column) -> Column:
    """What is at a path, as VARIANT; NULL when absent or no JSON."""
    return sf.call_function("try_variant_get", sf.try_parse_json(text), path, sf.lit("variant"))


def _is_nested(text: Column, path: Column) -> Column:
    return sf.rlike(sf.schema_of_variant(_at(text, path)), sf.lit("^(OBJECT|ARRAY)"))


def _json_value(text: Column, path: Column) -> Column:
    """Text of a scalar. A text that looks like an object may be one or a text of that shape; only then the JSON is
    looked at again."""
    found = sf.call_function("get_json_object", text, path)
    looks_nested = sf.rlike(found, sf.lit(NESTED_TEXT))
    return sf.when(looks_nested, sf.when(~_is_nested(text, path), found)).otherwise(found)


def _json_query(arguments: Arguments) -> Column:
    path = arguments.literal(1)
    return _all_elements(arguments.columns[0], path) if path and "[*]" in path else _sure(_nested_at)(arguments)


def _all_elements(text: Column, path: str) -> Column:
    """What each element of an array has at the rest of the path, as a JSON array; NULL where there is no array. Of a
    single element Spark gives no array."""
    array, rest = path.split("[*]")
    elements = sf.call_function("try_variant_get", sf.try_parse_json(text), sf.lit(array), sf.lit("array<variant>"))

    def has_rest(one: Column) -> Column:
        return sf.call_function("try_variant_get", one, sf.lit(f"${rest}"), sf.lit("variant")).isNotNull()

    number = sf.size(sf.filter(elements, has_rest))
    found = sf.call_function("get_json_object", text, sf.lit(path))
    single = sf.concat(sf.lit("["), found, sf.lit("]"))
    return sf.when(number == 0, sf.lit("[]")).when(number == 1, single).when(number > 1, found)


def _nested_at(text: Column, path: Column) -> Column:
    found = sf.call_function("get_json_object", text, path)
    return sf.when(sf.rlike(found, sf.lit(NESTED_TEXT)) & _is_nested(text, path), found)


def _json_exists(text: Column, path: Column) -> Column:
    return sf.when(text.isNotNull(), _at(text, path).isNotNull())


def _json_string(arguments: Arguments) -> Column:
    """Spark writes STRUCT, MAP and ARRAY as JSON; a single value goes through an ARRAY of it."""
    return _as_json(arguments.columns[0], arguments.type_of(0))


def _as_json(value: Column, type_: spark_types.DataType) -> Column:
    nested = isinstance(type_, spark_types.StructType | spark_types.MapType | spark_types.ArrayType)
    if nested:
        return sf.to_json(value, {"ignoreNullFields": "false"})
    listed = sf.to_json(sf.array(value))
    return sf.when(value.isNotNull(), sf.substring(listed, sf.lit(2), sf.length(listed) - 2))


def _json_text(arguments: Arguments, position: int) -> Column:
    """An argument as JSON; NULL stays NULL."""
    value = arguments.columns[position]
    return value if arguments.function(position) in JSON_TEXTS else _as_json(value, arguments.type_of(position))


def _joined(parts: list[Column], opening: str, closing: str) -> Column:
    """Parts that are not NULL with commas between them."""
    return sf.concat(sf.lit(opening), sf.concat_ws(",", *parts), sf.lit(closing))


def _object(*, absent: bool) -> Scalar:
    def made(arguments: Arguments) -> Column:
        parts = []
        for position in range(0, len(arguments.columns), 2):
            text = _json_text(arguments, position + 1)
            name = _as_json(arguments.columns[position], spark_types.StringType())
            parts.append(sf.concat(name, sf.lit(":"), text if absent else sf.coalesce(text, sf.lit("null"))))
        return _joined(parts, "{", "}")

    return made


def _array(*, absent: bool) -> Scalar:
    def made(arguments: Arguments) -> Column:
        texts = [_json_text(arguments, position) for position in range(len(arguments.columns))]
        return _joined(texts if absent else [sf.coalesce(text, sf.lit("null")) for text in texts], "[", "]")

    return made


def _unquoted(arguments: Arguments) -> Column:
    text = arguments.columns[0]
    read = sf.get(sf.from_json(sf.concat(sf.lit("["), text, sf.lit("]")), "array<string>"), sf.lit(0))
    is_string = sf.startswith(text, sf.lit('"')) & sf.try_parse_json(text).isNotNull()
    return sf.when(is_string, read).otherwise(text)


def _is_json(arguments: Arguments) -> Column:
    return sf.try_parse_json(arguments.columns[0]).isNotNull()


def _null_if_any(function: Callable[..., Column]) -> Scalar:
    """GREATEST and LEAST: Spark skips NULLs, the dialect does not."""

    def made(arguments: Arguments) -> Column:
        some_null = reduce(or_, [column.isNull() for column in arguments.columns])
        result = function(*arguments.columns) if len(arguments.columns) > 1 else arguments.columns[0]
        return sf.when(~some_null, result)

    return made


JSON_FUNCTIONS: Mapping[str, Scalar] = MappingProxyType(
    {
        "JSON_VALUE": _sure(_json_value),
        "JSON_QUERY": _json_query,
        "JSON_EXISTS": _sure(_json_exists),
        "JSON_STRING": _json_string,
        "JSON_OBJECT": _object(absent=False),
        "JSON_OBJECT_ABSENT": _object(absent=True),
        "JSON_ARRAY": _array(absent=True),
        "JSON_ARRAY_NULL": _array(absent=False),
        "JSON_QUOTE": _json_string,
        "JSON_UNQUOTE": _unquoted,
        "IS_JSON": _is_json,
    }
)
"""Function of JSON → Spark."""
CONDITIONAL_FUNCTIONS: Mapping[str, Scalar] = MappingProxyType(
    {
        "COALESCE": plain(sf.coalesce),
        "NULLIF": plain(sf.nullif),
        "IF": lambda a: sf.when(a.columns[0], a.columns[1]).otherwise(a.columns[2]),
        "GREATEST": _null_if_any(sf.greatest),
        "LEAST": _null_if_any(sf.least),
    }
)
"""Conditional function → Spark."""
