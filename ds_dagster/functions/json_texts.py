"""Functions of JSON texts and conditional functions. Paths are `$.name[0]`, with or without `lax` in front.
Names and meanings are Flink SQL's."""

from __future__ import annotations

from ds_dagster.datatypes import BOOLEAN, VARCHAR
from ds_dagster.functions.function import Example, Function, first, last, signature, simple

JSON_TEXTS = frozenset(
    ("JSON_OBJECT", "JSON_OBJECT_ABSENT", "JSON_ARRAY", "JSON_ARRAY_NULL", "JSON_STRING", "JSON_QUERY", "JSON_QUOTE")
)
"""Functions whose results stand in JSON as they are."""

JSON_FUNCTIONS: tuple[Function, ...] = (
    simple(
        "JSON_VALUE",
        "text text",
        VARCHAR,
        "scalar at a JSON path as text; NULL when absent or not a scalar",
        ("""JSON_VALUE('{"a": {"b": 1}}', '$.a.b')""", "'1'"),
        ("""JSON_VALUE('{"a": {"b": 1}}', '$.a')""", "NULL"),
        nulls="always",
    ),
    simple(
        "JSON_QUERY",
        "text text",
        VARCHAR,
        "object or array at a JSON path as JSON; NULL when absent or a scalar; one `[*]` in the path gives what all "
        "elements of an array have there, as an array",
        ("""JSON_QUERY('{"a": [1, 2]}', '$.a')""", "'[1,2]'"),
        ("""JSON_QUERY('{"a": 1}', '$.a')""", "NULL"),
        ("""JSON_QUERY('{"a": [{"b": "x"}, {"c": 2}]}', 'lax $.a[*].b')""", """'["x"]'"""),
        ("""JSON_QUERY('{"a": [[1, 2]]}', '$.a[*]')""", "'[[1,2]]'"),
        ("""JSON_QUERY('{"a": ["y", 1.0, null]}', '$.a[*]')""", """'["y",1.0,null]'"""),
        ("""JSON_QUERY('{"a": [{"c": 2}]}', '$.a[*].b')""", "'[]'"),
        ("""JSON_QUERY('{"a": 1}', '$.a[*]')""", "NULL"),
        nulls="always",
    ),
    simple(
        "JSON_EXISTS",
        "text text",
        BOOLEAN,
        "something is at a JSON path, be it `null`; FALSE for what is not valid JSON",
        ("""JSON_EXISTS('{"a": null}', '$.a')""", "TRUE"),
        ("""JSON_EXISTS('{"a": null}', '$.b')""", "FALSE"),
        ("JSON_EXISTS('nonsense', '$.b')", "FALSE"),
    ),
    simple(
        "JSON_STRING",
        "any",
        VARCHAR,
        "the value as JSON",
        ("JSON_STRING('x')", "'\"x\"'"),
        ("JSON_STRING(ARRAY[1, 2])", "'[1,2]'"),
        ("JSON_STRING(TRUE)", "'true'"),
    ),
    simple(
        "JSON_OBJECT",
        "text any*",
        VARCHAR,
        "an object of names and values, `JSON_OBJECT([KEY] 'a' VALUE 1, …)` or with commas; NULL is `null`, or left "
        "out with `ABSENT ON NULL`; what JSON_OBJECT, JSON_ARRAY and JSON_STRING give stands inside as JSON",
        ("JSON_OBJECT(KEY 'a' VALUE 1, 'b' VALUE NULL)", """'{"a":1,"b":null}'"""),
        ("JSON_OBJECT('a' VALUE 'x', 'b' VALUE NULL ABSENT ON NULL)", """'{"a":"x"}'"""),
        ("JSON_OBJECT('a', JSON_ARRAY(1, TRUE))", """'{"a":[1,true]}'"""),
        nulls="never",
    ),
    simple(
        "JSON_OBJECT_ABSENT",
        "text any*",
        VARCHAR,
        "JSON_OBJECT with `ABSENT ON NULL`",
        ("JSON_OBJECT_ABSENT('a', NULL, 'b', 2)", """'{"b":2}'"""),
        nulls="never",
    ),
    simple(
        "JSON_ARRAY",
        "any+",
        VARCHAR,
        "an array of values; NULL is left out, or `null` with `NULL ON NULL`",
        ("JSON_ARRAY(1, NULL, 'x')", """'[1,"x"]'"""),
        ("JSON_ARRAY(1, NULL NULL ON NULL)", """'[1,null]'"""),
        ("JSON_ARRAY(NULL)", "'[]'"),
        nulls="never",
    ),
    simple(
        "JSON_ARRAY_NULL",
        "any+",
        VARCHAR,
        "JSON_ARRAY with `NULL ON NULL`",
        ("JSON_ARRAY_NULL(NULL, 2)", "'[null,2]'"),
        nulls="never",
    ),
    simple(
        "JSON_QUOTE",
        "text",
        VARCHAR,
        "the text as a JSON string",
        ("JSON_QUOTE('a\"b')", """'"a\\"b"'"""),
    ),
    simple(
        "JSON_UNQUOTE",
        "text",
        VARCHAR,
        "what a JSON string says; any other text as it is",
        ("""JSON_UNQUOTE('"a\\"b"')""", """'a"b'"""),
        ("JSON_UNQUOTE('[1]')", "'[1]'"),
        ("""JSON_UNQUOTE('"open')""", """'"open'"""),
    ),
    simple(
        "IS_JSON",
        "text",
        BOOLEAN,
        "a JSON text; FALSE for NULL (Flink's `IS JSON`)",
        ("IS_JSON('{\"a\": 1}')", "TRUE"),
        ("IS_JSON('{a')", "FALSE"),
        nulls="never",
    ),
)

CONDITIONAL_FUNCTIONS: tuple[Function, ...] = (
    simple(
        "COALESCE",
        "same+",
        first,
        "first argument that is not NULL",
        ("COALESCE(NULL, 1, 2)", "1"),
        nulls="all",
        aliases=("IFNULL", "NVL"),
    ),
    simple(
        "NULLIF",
        "same_comparable same_comparable",
        first,
        "NULL when both are equal, else the first",
        ("NULLIF(1, 1)", "NULL"),
        nulls="always",
    ),
    Function(
        "IF",
        (signature("boolean same same", last),),
        "the second when the first is true, else (also for NULL) the third",
        nulls="always",
        examples=(Example("IF(1 > 2, 'more', 'less')", "'less'"),),
    ),
    simple(
        "GREATEST",
        "same_comparable+",
        first,
        "largest argument; NULL when any argument is NULL",
        ("GREATEST(1, 3, 2)", "3"),
    ),
    simple(
        "LEAST", "same_comparable+", first, "smallest argument; NULL when any argument is NULL", ("LEAST(1, 3, 2)", "1")
    ),
)
