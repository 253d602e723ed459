"""How values become JSON: beside Spark's own ``to_json``, over values at the limits of every type and random ones."""

from __future__ import annotations

import json
import random

from pyspark.sql import functions as sf

from ds_dagster.spark.records.json_output import json_row, json_value
from ds_dagster.sql.script import parse_type

VALUES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128", "0", "127"),
    "SMALLINT": ("-32768", "0", "32767"),
    "INTEGER": ("-2147483648", "0", "2147483647"),
    "BIGINT": ("-9223372036854775808", "0", "9223372036854775807"),
    "FLOAT": ("0", "-0", "1e-45", "3.4028235e38", "0.1", "NaN", "Infinity", "-Infinity"),
    "DOUBLE": ("0", "-0", "4.9e-324", "1.7976931348623157e308", "0.1", "2e-3", "1e7", "NaN", "Infinity", "-Infinity"),
    "DECIMAL(5, 2)": ("0", "-0.01", "999.99", "-999.99"),
    "DECIMAL(38, 18)": ("0", "0.000000000000000001", "-99999999999999999999.999999999999999999", "1e-7"),
    "VARCHAR": (
        "",
        "a",
        'quote " and \\\\ and /',
        "line\\nreturn\\rtab\\tzero\\u0000bell\\u0007",
        "żółć",
        "日本",
        "😀",
        "\\u2028",
    ),
    "VARBINARY": ("", "a", "abc", "\\u00ff"),
    "DATE": ("1970-01-01", "0001-01-01", "9999-12-31", "2024-02-29", "+12345-06-07", "-0044-03-15"),
    "TIME": ("00:00:00", "23:59:59.999999", "12:34:56.7"),
    "TIMESTAMP(3)": (
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.9",
    ),
    "TIMESTAMP_LTZ(3)": (
        "2024-02-29 12:34:56.789",
        "+12345-06-07 00:00:00",
        "-0044-03-15 01:02:03",
        "0000-01-01 00:00:00",
    ),
}
OPTIONS = {"ignoreNullFields": "false"}
PATTERNS = {"sql": "yyyy-MM-dd HH:mm:ss", "iso8601": "yyyy-MM-dd'T'HH:mm:ss"}


def options(timestamp_format: str, digits: int) -> dict[str, str]:
    pattern = f"{PATTERNS[timestamp_format]}.{'S' * digits}"
    return OPTIONS | {"timestampFormat": pattern + "X", "timestampNTZFormat": pattern}


def spark_name(name: str) -> str:
    names = {"VARCHAR": "STRING", "VARBINARY": "BINARY", "INTEGER": "INT", "TIMESTAMP(3)": "TIMESTAMP_NTZ"}
    return names.get(name, name.removesuffix("(3)"))


def typed(name: str, text: str) -> str:
    return f"CAST('{text}' AS {spark_name(name).replace('_LTZ', '')})"


def frame_of_values(spark, names, rows: int):
    """Values of every type, NULL among them, each in a column, an array, a map and a struct."""
    dice = random.Random(7)

    def value(name: str, row: int) -> str:
        texts = VALUES[name]
        if row < len(texts):
            return typed(name, texts[row])
        return (
            f"CAST(NULL AS {spark_name(name).replace('_LTZ', '')})"
            if dice.random() < 0.2
            else typed(name, dice.choice(texts))
        )

    lines = []
    for row in range(rows):
        lines.append("(" + ", ".join(value(name, row) for name in names) + ")")
    columns = ", ".join(f"c{n}" for n in range(len(names)))
    plain = spark.sql(f"SELECT * FROM VALUES {', '.join(lines)} AS t({columns})")
    nested = [
        text
        for n in range(len(names))
        for text in (
            f"array(c{n}, NULL) AS a{n}",
            f"map('k', c{n}, 'ż', NULL) AS m{n}",
            f"named_struct('x', c{n}, 'y z', 7) AS s{n}",
        )
    ]
    return plain.selectExpr("*", *nested)


def test_rows_are_written_as_spark_writes_them(spark):
    names = list(VALUES)
    types = []
    for n, name in enumerate(names):
        types += [(f"c{n}", name), (f"a{n}", f"ARRAY<{name}>"), (f"m{n}", f"MAP<VARCHAR, {name}>")]
        types += [(f"s{n}", f"STRUCT<x {name}, `y z` INTEGER>")]
    fields = [(name, sf.col(name), parse_type(type_)) for name, type_ in types]
    struct = sf.struct(*[sf.col(name) for name, _ in types])
    frame = frame_of_values(spark, names, 60)
    made = frame.select(
        *[json_row(fields, form).alias(f"ours_{form}") for form in PATTERNS],
        *[sf.to_json(struct, options(form, 3)).alias(f"sparks_{form}") for form in PATTERNS],
    ).collect()
    assert len(made) == 60
    for row in made:
        assert row.ours_sql == row.sparks_sql
        assert row.ours_iso8601 == row.sparks_iso8601


def test_microseconds_where_a_type_asks_for_them(spark):
    frame = spark.sql(
        "SELECT TIMESTAMP_NTZ '2024-01-31 10:11:12.123456' AS at, array(TIMESTAMP '1969-12-31 23:59:59.000001') AS l"
    )
    fields = [
        ("at", sf.col("at"), parse_type("TIMESTAMP(3)")),
        ("l", sf.col("l"), parse_type("ARRAY<TIMESTAMP_LTZ(6)>")),
    ]
    (row,) = frame.select(json_row(fields, "iso8601").alias("made")).collect()
    assert row.made == '{"at":"2024-01-31T10:11:12.123456","l":["1969-12-31T23:59:59.000001Z"]}'


def test_values_with_parts(spark):
    frame = spark.sql(
        "SELECT array(1, NULL) AS l, map('a', 1D) AS m, named_struct('x', 'y') AS s, CAST(NULL AS ARRAY<INT>) AS n"
    )
    types = {"l": "ARRAY<INTEGER>", "m": "MAP<VARCHAR, DOUBLE>", "s": "STRUCT<x VARCHAR>", "n": "ARRAY<INTEGER>"}
    made = frame.select(
        *[json_value(sf.col(name), parse_type(type_), "sql").alias(name) for name, type_ in types.items()]
    )
    assert made.collect()[0].asDict() == {"l": "[1,null]", "m": '{"a":1.0}', "s": '{"x":"y"}', "n": None}


def test_bytes_that_are_not_utf_8(spark):
    frame = spark.sql("SELECT CAST(X'61ff62' AS STRING) AS t")
    (row,) = frame.select(json_row([("t", sf.col("t"), parse_type("VARCHAR"))], "sql").alias("made")).collect()
    assert row.made == '{"t":"a\N{REPLACEMENT CHARACTER}b"}'


def test_keys_of_a_map_are_the_texts_of_values(spark):
    names = list(VALUES)
    frame = frame_of_values(spark, names, 20)
    fields = []
    for n, name in enumerate(names):
        key, one = sf.array(f"c{n}"), sf.array(sf.lit(1))
        entries = sf.when(sf.col(f"c{n}").isNotNull(), sf.map_from_arrays(key, one))
        fields += [
            (f"v{n}", sf.col(f"c{n}"), parse_type(name)),
            (f"m{n}", entries, parse_type(f"MAP<{name}, INTEGER>")),
        ]
    for (line,) in frame.select(json_row(fields, "sql")).collect():
        row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
        for n, name in enumerate(names):
            value = {True: "true", False: "false"}.get(row[f"v{n}"], row[f"v{n}"])
            assert row[f"m{n}"] == (None if value is None else {value: "1"}), name
