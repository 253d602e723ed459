"""Functions of JSON texts, Flink SQL's names and meanings. Paths are `$.name[0]`, with or without `lax` before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp

from ds_dagster.datatypes import BOOLEAN, VARCHAR
from ds_dagster.functions.constants import Constant
from ds_dagster.functions.function import RowFunction, scalar
from ds_dagster.functions.question import Call, Computed, nullable, strict
from ds_dagster.functions.spark import Functions, OfCall, SparkCall, by_java

if TYPE_CHECKING:
    from pyspark.sql import Column

JSON_TEXTS = frozenset(
    ("JSON_OBJECT", "JSON_OBJECT_ABSENT", "JSON_ARRAY", "JSON_ARRAY_NULL", "JSON_STRING", "JSON_QUERY", "JSON_QUOTE")
)
"""Functions whose results are inserted into JSON unchanged."""
JSON_BUILDERS = frozenset(("JSON_OBJECT", "JSON_OBJECT_ABSENT", "JSON_ARRAY", "JSON_ARRAY_NULL"))
"""Functions whose results are JSON already for JSON_STRING."""

NAME_IS_NULL = "a name in JSON_OBJECT is NULL"

# --- Spark ------------------------------------------------------------------------------------------------------------


def _spark_json(call: SparkCall, position: int) -> Column:
    return call.java.json(call.columns[position], call.type_of(position))


def _spark_text(call: SparkCall, position: int) -> Column:
    """An argument as JSON; NULL stays NULL."""
    return call.columns[position] if call.function(position) in JSON_TEXTS else _spark_json(call, position)


def _spark_string(_: Functions, call: SparkCall) -> Column:
    return call.columns[0] if call.function(0) in JSON_BUILDERS else _spark_json(call, 0)


def _spark_quote(_: Functions, call: SparkCall) -> Column:
    return _spark_json(call, 0)


def _spark_joined(f: Functions, parts: Sequence[Column], opening: str, closing: str) -> Any:
    """Parts that are not NULL with commas between them."""
    return f.concat(f.lit(opening), f.concat_ws(",", *parts), f.lit(closing))


def _spark_object(*, absent: bool) -> OfCall:
    def build(f: Functions, call: SparkCall) -> Any:
        parts = []
        for position in range(0, len(call.columns), 2):
            text = _spark_text(call, position + 1)
            name = f.coalesce(_spark_json(call, position), f.raise_error(f.lit(NAME_IS_NULL)))
            parts.append(f.concat(name, f.lit(":"), text if absent else f.coalesce(text, f.lit("null"))))
        return _spark_joined(f, parts, "{", "}")

    return OfCall(build)


def _spark_array(*, absent: bool) -> OfCall:
    def build(f: Functions, call: SparkCall) -> Any:
        texts = [_spark_text(call, position) for position in range(len(call.columns))]
        return _spark_joined(f, texts if absent else [f.coalesce(text, f.lit("null")) for text in texts], "[", "]")

    return OfCall(build)


# --- questions --------------------------------------------------------------------------------------------------------


def _built(build: Literal["json_object", "json_array"], *, absent: bool) -> Computed:
    """Arguments as JSON; results of functions of JSON are inserted unchanged."""

    def make(call: Call) -> Callable[..., Any]:
        from ds_dagster.functions.values import json_texts

        is_json = [isinstance(tree, exp.Anonymous) and str(tree.this) in JSON_TEXTS for tree in call.written]
        if build == "json_object":
            is_json[::2] = [False] * len(is_json[::2])  # names

        def function(*values: Any) -> str:
            triples = zip(values, call.types, is_json, strict=True)
            parts = [value if is_text else json_texts.as_json(value, type_) for value, type_, is_text in triples]
            if build == "json_object" and None in parts[::2]:
                raise ValueError(NAME_IS_NULL)
            text: str = getattr(json_texts, build)(parts, absent=absent)
            return text

        return function

    return Computed(make, takes_nulls=True)


def _string(call: Call) -> Callable[..., Any]:
    from ds_dagster.functions.values import json_texts

    tree = call.written[0]
    if isinstance(tree, exp.Anonymous) and str(tree.this) in JSON_BUILDERS:
        return lambda value: value
    return lambda value: json_texts.as_json(value, call.types[0])


# --- records ----------------------------------------------------------------------------------------------------------

JSON_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "JSON_VALUE",
        "text text",
        VARCHAR,
        "scalar at a JSON path as text, a number as it is written; NULL if it is absent or not a scalar",
        ("""JSON_VALUE('{"a": {"b": 1}}', '$.a.b')""", "'1'"),
        ("""JSON_VALUE('{"a": {"b": 1}}', '$.a')""", "NULL"),
        nulls="always",
        spark=by_java("JsonTexts.value"),
        question=strict("json_texts.scalar"),
        constants=(Constant("json_path", 1),),
    ),
    scalar(
        "JSON_QUERY",
        "text text",
        VARCHAR,
        "object or array at a JSON path as JSON; NULL if it is absent or a scalar; with one `[*]` in the path, an "
        "array with the values of all elements",
        ("""JSON_QUERY('{"a": [1, 2]}', '$.a')""", "'[1,2]'"),
        ("""JSON_QUERY('{"a": 1}', '$.a')""", "NULL"),
        ("""JSON_QUERY('{"a": [{"b": "x"}, {"c": 2}]}', 'lax $.a[*].b')""", """'["x"]'"""),
        ("""JSON_QUERY('{"a": [[1, 2]]}', '$.a[*]')""", "'[[1,2]]'"),
        ("""JSON_QUERY('{"a": ["y", 1.0, null]}', '$.a[*]')""", """'["y",1.0,null]'"""),
        ("""JSON_QUERY('{"a": [{"c": 2}]}', '$.a[*].b')""", "'[]'"),
        ("""JSON_QUERY('{"a": 1}', '$.a[*]')""", "NULL"),
        nulls="always",
        spark=by_java("JsonTexts.nested"),
        question=strict("json_texts.nested"),
        constants=(Constant("json_path", 1, all_elements=True),),
    ),
    scalar(
        "JSON_EXISTS",
        "text text",
        BOOLEAN,
        "whether there is a value at a JSON path, also `null`; FALSE if the text is not valid JSON",
        ("""JSON_EXISTS('{"a": null}', '$.a')""", "TRUE"),
        ("""JSON_EXISTS('{"a": null}', '$.b')""", "FALSE"),
        ("JSON_EXISTS('nonsense', '$.b')", "FALSE"),
        spark=by_java("JsonTexts.exists"),
        question=strict("json_texts.exists"),
        constants=(Constant("json_path", 1),),
    ),
    scalar(
        "JSON_STRING",
        "any",
        VARCHAR,
        "the value as JSON; a result of JSON_OBJECT or JSON_ARRAY stays as it is",
        ("JSON_STRING('x')", "'\"x\"'"),
        ("JSON_STRING(ARRAY[1, 2])", "'[1,2]'"),
        ("JSON_STRING(TRUE)", "'true'"),
        ("JSON_STRING(JSON_ARRAY(1))", "'[1]'"),
        spark=OfCall(_spark_string),
        question=Computed(_string),
    ),
    scalar(
        "JSON_OBJECT",
        "text any*",
        VARCHAR,
        "an object of names and values, `JSON_OBJECT([KEY] 'a' VALUE 1, …)` or with commas; NULL is `null`, or left "
        "out with `ABSENT ON NULL`; results of JSON_OBJECT, JSON_ARRAY and JSON_STRING are inserted as JSON; the row "
        "fails if a name is NULL",
        ("JSON_OBJECT(KEY 'a' VALUE 1, 'b' VALUE NULL)", """'{"a":1,"b":null}'"""),
        ("JSON_OBJECT('a' VALUE 'x', 'b' VALUE NULL ABSENT ON NULL)", """'{"a":"x"}'"""),
        ("JSON_OBJECT('a', JSON_ARRAY(1, TRUE))", """'{"a":[1,true]}'"""),
        nulls="never",
        spark=_spark_object(absent=False),
        question=_built("json_object", absent=False),
    ),
    scalar(
        "JSON_OBJECT_ABSENT",
        "text any*",
        VARCHAR,
        "JSON_OBJECT with `ABSENT ON NULL`",
        ("JSON_OBJECT_ABSENT('a', NULL, 'b', 2)", """'{"b":2}'"""),
        nulls="never",
        spark=_spark_object(absent=True),
        question=_built("json_object", absent=True),
    ),
    scalar(
        "JSON_ARRAY",
        "any+",
        VARCHAR,
        "an array of values; NULL is left out, or `null` with `NULL ON NULL`",
        ("JSON_ARRAY(1, NULL, 'x')", """'[1,"x"]'"""),
        ("JSON_ARRAY(1, NULL NULL ON NULL)", """'[1,null]'"""),
        ("JSON_ARRAY(NULL)", "'[]'"),
        nulls="never",
        spark=_spark_array(absent=True),
        question=_built("json_array", absent=True),
    ),
    scalar(
        "JSON_ARRAY_NULL",
        "any+",
        VARCHAR,
        "JSON_ARRAY with `NULL ON NULL`",
        ("JSON_ARRAY_NULL(NULL, 2)", "'[null,2]'"),
        nulls="never",
        spark=_spark_array(absent=False),
        question=_built("json_array", absent=False),
    ),
    scalar(
        "JSON_QUOTE",
        "text",
        VARCHAR,
        "the text as a JSON string",
        ("JSON_QUOTE('a\"b')", """'"a\\"b"'"""),
        spark=OfCall(_spark_quote),
        question=strict("json_texts.quote"),
    ),
    scalar(
        "JSON_UNQUOTE",
        "text",
        VARCHAR,
        "the text in a JSON string; any other text unchanged",
        ("""JSON_UNQUOTE('"a\\"b"')""", """'a"b'"""),
        ("JSON_UNQUOTE('[1]')", "'[1]'"),
        ("""JSON_UNQUOTE('"open')""", """'"open'"""),
        spark=by_java("JsonTexts.unquoted"),
        question=strict("json_texts.unquoted"),
    ),
    scalar(
        "IS_JSON",
        "text",
        BOOLEAN,
        "whether the text is JSON; FALSE for NULL (Flink's `IS JSON`)",
        ("IS_JSON('{\"a\": 1}')", "TRUE"),
        ("IS_JSON('{a')", "FALSE"),
        nulls="never",
        spark=OfCall(lambda f, call: f.coalesce(call.java.scalar("JsonTexts.valid", *call.columns), f.lit(False))),
        question=nullable("json_texts.is_json"),
    ),
)
