"""How JSON becomes values: the table tests/fixtures/json_input.tsv, in one job; and what is not JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from ds_dagster.datatypes import DataType
from ds_dagster.spark.functions.java_values import json_columns
from ds_dagster.spark.records.typemap import to_spark
from ds_dagster.sql.script import parse_type
from tests.scalars import Answer, answer_of, same_answer

TABLE = Path(__file__).parents[2] / "fixtures" / "json_input.tsv"
BAD = "BAD"


def table() -> list[tuple[str, str, str]]:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    return [(type_, value, answer) for type_, value, answer in lines]


def decoded(spark, types: list[DataType], records: list[bytes], *, nullable: bool = True) -> list[dict[str, object]]:
    """The columns ``c0`` … and ``reason`` of each record."""
    fields = [spark_types.StructField(f"c{n}", to_spark(type_), nullable) for n, type_ in enumerate(types)]
    shown = [str(type_) for type_ in types]
    frame = spark.createDataFrame([(n, bytearray(record)) for n, record in enumerate(records)], "n int, value binary")
    made = json_columns(sf.col("value"), spark_types.StructType(fields), shown, reason="reason", kind="value")
    return frame.select("n", made.alias("made")).orderBy("n").select("made.*").toArrow().to_pylist()


def test_the_table(spark):
    rows = table()
    names = list(dict.fromkeys(type_ for type_, _, _ in rows))
    types = [parse_type(name) for name in names]
    records = [f'{{"c{names.index(type_)}": {value}}}'.encode() for type_, value, _ in rows]
    wrong = []
    for (name, value, expected), made in zip(rows, decoded(spark, types, records), strict=True):
        at = names.index(name)
        is_bad = made["reason"] == f"the JSON has another type for: c{at} {types[at]}"
        found: Answer = BAD if is_bad else answer_of(made[f"c{at}"], types[at])
        if not same_answer(found, expected) or (made["reason"] is not None and not is_bad):
            wrong.append(f"{name} {value}: {found} {made['reason'] or ''}, expected {expected}")
    assert not wrong, "\n".join(wrong)


NOT_VALID = "the value is not valid JSON"
RECORDS = {
    b'{"c0": 1}': None,
    b' {"c0": 1} \n': None,
    b'\xef\xbb\xbf{"c0": 1}': None,
    b'{"z": {"y": [1, {}]}, "c0": "1"}': None,
    b'{"c0": 1, "c0": 2}': None,
    b"": "the value is empty",
    b"  ": "the value is empty",
    b"[1]": "the value is not a JSON object",
    b"null": "the value is not a JSON object",
    b'"{}"': "the value is not a JSON object",
    b"{}": "column c0 is NULL",
    b'{"c0": null}': "column c0 is NULL",
    b"{'c0': 1}": NOT_VALID,
    b"{c0: 1}": NOT_VALID,
    b'{"c0": 01}': NOT_VALID,
    b'{"c0": +1}': NOT_VALID,
    b'{"c0": NaN}': NOT_VALID,
    b'{"c0": 1,}': NOT_VALID,
    b'{"c0": 1 /* one */}': NOT_VALID,
    b'{"c0": 1': NOT_VALID,
    b'{"z": [1, 2}, "c0": 1}': NOT_VALID,
    b'{"c0": "\xff"}': NOT_VALID,
    b'{"c0": "a\nb"}': NOT_VALID,
    b'{"z": ' + b"[" * 1001 + b"]" * 1001 + b', "c0": 1}': NOT_VALID,
    b'{"z": ' + b"[" * 900 + b"]" * 900 + b', "c0": 1}': None,
    b'{"c0": 1} trailing': NOT_VALID,
    b'{"c0": 1} {"c0": 2}': "text goes on behind the JSON object",
    b'{"c0": 1}]': NOT_VALID,
}
"""Record → why it is bad."""


def test_what_is_not_json(spark):
    made = decoded(spark, [parse_type("BIGINT")], list(RECORDS), nullable=False)
    assert {record: row["reason"] for record, row in zip(RECORDS, made, strict=True)} == RECORDS
    assert made[list(RECORDS).index(b'{"c0": 1, "c0": 2}')]["c0"] == 2


@pytest.mark.parametrize(("value", "named"), [(b'{"c0": "s3cret", "c1": [1]}', "c0 BIGINT, c1 BOOLEAN")])
def test_all_columns_of_another_type_are_named_and_no_value(spark, value, named):
    (row,) = decoded(spark, [parse_type("BIGINT"), parse_type("BOOLEAN")], [value])
    assert row["reason"] == f"the JSON has another type for: {named}"
