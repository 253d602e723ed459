"""How JSON becomes values: the table tests/fixtures/json_input.tsv, in one job; and what is not JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow
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
    return decoded_table(spark, types, records, nullable=nullable).to_pylist()


def decoded_table(
    spark, types: list[DataType], records: list[bytes], *, nullable: bool, names: Sequence[str] = ()
) -> pyarrow.Table:
    called = names or [f"c{n}" for n in range(len(types))]
    fields = [
        spark_types.StructField(name, to_spark(type_), nullable) for name, type_ in zip(called, types, strict=True)
    ]
    shown = [str(type_) for type_ in types]
    frame = spark.createDataFrame([(n, bytearray(record)) for n, record in enumerate(records)], "n int, value binary")
    made = json_columns(sf.col("value"), spark_types.StructType(fields), shown, reason="reason", kind="value")
    return frame.select("n", made.alias("made")).orderBy("n").select("made.*").toArrow()


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
    b'{"c0": 1} {"c0": 2}': "more text follows the JSON object",
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


NUMBERS = ("TINYINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(8, 2)", "DECIMAL(18, 0)", "DECIMAL(38, 10)")
TIMES = ("TIMESTAMP(3)", "TIMESTAMP_LTZ(6)")


def some_number(dice: random.Random) -> str:
    whole = str(dice.randrange(-(10 ** dice.randrange(1, 21)), 10 ** dice.randrange(1, 21)))
    fraction = f".{dice.randrange(10 ** dice.randrange(1, 20))}" if dice.random() < 0.5 else ""
    exponent = f"e{dice.randrange(-12, 12)}" if dice.random() < 0.2 else ""
    return dice.choice(["0", "-0", "0.0", "-0.0", "1e-400", "9007199254740993"] + [whole + fraction + exponent] * 20)


def some_time(dice: random.Random) -> str:
    """Mostly a valid one."""
    date = f"{dice.randrange(0, 10_000):04}-{dice.randrange(1, 13):02}-{dice.randrange(1, 32):02}"
    time = f"{dice.randrange(0, 25):02}:{dice.randrange(0, 60):02}:{dice.randrange(0, 61):02}"
    digits = dice.randrange(0, 10)
    return f"{date}{dice.choice(' T')}{time}" + (f".{dice.randrange(10**digits):0{digits}}" if digits else "")


def test_what_is_read_without_its_text_is_what_the_text_means(spark):
    """A plain number is read as the quoted one, a time as the one with a written zone, a text as the escaped one: the
    second of each goes by the rules for texts. Fields come in changing orders, with others between."""
    dice = random.Random(20261123)
    types = [parse_type(name) for name in (*NUMBERS, *TIMES, "VARCHAR")]
    plain, spelled = [], []
    for _ in range(20_000):
        values = [(number, f'"{number}"') for number in (some_number(dice) for _ in NUMBERS)]
        values += [
            (f'"{time}{dice.choice(["", "Z"])}"', f'"{time}+00:00"') for time in (some_time(dice) for _ in TIMES)
        ]
        text = "".join(dice.choice("ab /:") for _ in range(dice.randrange(12)))
        values.append((f'"{text}"', '"' + "".join(f"\\u{ord(character):04x}" for character in text) + '"'))
        fields = dice.sample(list(enumerate(values)), dice.randrange(1, 4))
        between = f'"n{dice.randrange(3)}": [1, {{}}], ' if dice.random() < 0.1 else ""
        for records, side in ((plain, 0), (spelled, 1)):
            body = ", ".join(f'"c{n}": {value[side]}' for n, value in fields)
            records.append(f"{{{between}{body}}}".encode())
    ours, rules = decoded(spark, types, plain), decoded(spark, types, spelled)
    differing = [
        (record, one, other) for record, one, other in zip(plain, ours, rules, strict=True) if repr(one) != repr(other)
    ]
    assert not differing, differing[:3]
    assert sum(row["reason"] is None for row in ours) > 5_000


NAMES = ("a", "measure", "measurement", "measurements", "measurem", "measured", "größe", "größen", "x" * 300, "")


def test_names_of_any_length_in_any_order(spark):
    """Names that begin alike, in the same order many times and then in another one, up to the end of the record."""
    dice, order, records, expected = random.Random(20261130), list(NAMES), [], []
    for _ in range(3_000):
        if dice.random() < 0.1:
            dice.shuffle(order)
        row: dict[str, object] = {name: dice.randrange(100) for name in order if dice.random() < 0.8}
        unknown = {f"measure{dice.randrange(3)}": 1} if dice.random() < 0.1 else {}
        spaces = dice.choice([(",", ":"), (", ", ": ")])
        records.append(json.dumps({**row, **unknown}, ensure_ascii=False, separators=spaces).encode())
        expected.append({**dict.fromkeys(NAMES), **row, "reason": None})
    types = [parse_type("BIGINT")] * len(NAMES)
    assert decoded_table(spark, types, records, nullable=True, names=NAMES).to_pylist() == expected


NESTED = ("ARRAY<BIGINT>", "MAP<VARCHAR, DOUBLE>", "STRUCT<a BIGINT, b VARCHAR>")
TEXTS = (
    "a",
    "é",
    "日",
    "😀",
    "\\n",
    '\\"',
    "\\\\",
    "\\/",
    "\\u00e9",
    "\\u65E5",
    "\\ud83d\\ude00",
    " plain text ",
    "\x7f",
)
BROKEN = ("\\", '"', "\\x", "\\u12g4", "\\ud83d", "\n", "\x00", ",", "}", "]", "{", "e", "-", "0", " ")


def some_text(dice: random.Random) -> str:
    return '"' + "".join(dice.choices(TEXTS, k=dice.randrange(12))) + '"'


def some_nested(dice: random.Random, type_: str) -> str:
    items = [some_number(dice) for _ in range(dice.randrange(3))]
    if type_.startswith("ARRAY"):
        return f"[{', '.join(items)}]"
    if type_.startswith("MAP"):
        return "{" + ",".join(f"{some_text(dice)}:{item}" for item in items) + "}"
    return f'{{"b": {some_text(dice)}, "z": [{", ".join(items)}], "a": 7}}'


def changed(dice: random.Random, record: bytes) -> bytes:
    """One record in three is damaged somewhere; never by 0xff, which Jackson overlooks before a short name it knows."""
    at, kind = dice.randrange(1, len(record)), dice.randrange(9)
    if kind == 0:
        return record[:at]
    if kind == 1:
        return record[:at] + dice.choice(BROKEN).encode() + record[at:]
    return record[:at] + bytes([dice.randrange(255)]) + record[at + 1 :] if kind == 2 else record


def with_numbers(table: pyarrow.Table) -> list[dict[str, object]]:
    """Rows with times as numbers: Python has no years above 9999."""
    shown = [c.cast(pyarrow.int64()) if pyarrow.types.is_timestamp(c.type) else c for c in table.columns]
    return pyarrow.table(shown, names=table.column_names).to_pylist()


def test_what_is_read_from_the_bytes_is_what_jackson_reads(spark):
    """Jackson alone reads a record that begins with a byte order mark, and ignores the mark."""
    dice = random.Random(20261127)
    types = [parse_type(name) for name in (*NUMBERS, *TIMES, "VARCHAR", *NESTED)]
    records = []
    for _ in range(20_000):
        values = [some_number(dice) for _ in NUMBERS] + [f'"{some_time(dice)}"' for _ in TIMES]
        values += [some_text(dice), *(some_nested(dice, type_) for type_ in NESTED)]
        fields = dice.sample(list(enumerate(values)), dice.randrange(1, 5))
        body = ",".join(f'"c{n}":{value}' for n, value in fields)
        between = f'"n{dice.randrange(3)}": {some_nested(dice, dice.choice(NESTED))}, ' if dice.random() < 0.2 else ""
        records.append(changed(dice, f"{{{between}{body}}}".encode()))
    marked = [b"\xef\xbb\xbf" + record for record in records]
    ours, jackson = (with_numbers(decoded_table(spark, types, side, nullable=True)) for side in (records, marked))
    differing = [
        (record, one, other)
        for record, one, other in zip(records, ours, jackson, strict=True)
        if repr(one) != repr(other)
    ]
    assert not differing, differing[:3]
    assert 5_000 < sum(row["reason"] is None for row in ours) < 18_000
