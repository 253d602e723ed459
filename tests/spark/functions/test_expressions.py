# ruff: noqa: DTZ001, E501 - TIMESTAMP has no zone; one record, one list of columns
"""Every function and node of the dialect on Spark, with the dialect's meaning; expected values are written by hand."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException

from ds_dagster.diagnostics import Span
from ds_dagster.functions.operators import OPERATORS
from ds_dagster.functions.table import ROW_FUNCTIONS
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.expressions.binder import BOUND_NODES, ExpressionBinder
from ds_dagster.plan.nodes.application import Bundle
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings
from ds_dagster.spark.compiler import COMPILERS, PlanCompiler
from ds_dagster.spark.expressions import VISITORS, compile_expression
from ds_dagster.spark.queries.sources import PROVIDED
from ds_dagster.spark.records.formats import SourceFrame
from ds_dagster.spark.records.typemap import to_spark
from ds_dagster.sql.script import parse_select
from tests.plan.conftest import node_classes
from tests.tables import check_every

READ_BY_THEIR_PARENT = {"Alias", "If", "Interval", "Var", "Identifier", "DataType", "DataTypeParam", "ColumnDef"}
UTC = datetime.timezone.utc

ROW = """{"i": 7, "j": 2, "z": 0, "l": 10000000000, "d": 2.5, "x": 12.345, "s": " Ab,c,,d ", "e": "", "n": null, "u": "2024-01-31 10:11:12",
  "t": "2024-01-31 10:11:12.5", "ltz": "2024-01-31 10:11:12.5Z", "dt": "2024-01-31", "b": true,
  "a": [5, 6], "m": {"k": 1}, "st": {"f": "v"}, "js": "{\\"a\\": {\\"b\\": 1.0}, \\"t\\": \\"{x\\", \\"l\\": [1], \\"n\\": null}"}"""
COLUMNS = """i INTEGER, j INTEGER, z INTEGER, l BIGINT, d DOUBLE, x DECIMAL(10,3), s VARCHAR, e VARCHAR, n VARCHAR, u VARCHAR, t TIMESTAMP(3),
  ltz TIMESTAMP_LTZ(3), dt DATE, b BOOLEAN, a ARRAY<INTEGER>, m MAP<VARCHAR, INTEGER>, st STRUCT<f VARCHAR>, js VARCHAR"""

CASES = {
    # arithmetic
    "i / j": 3,
    "-i / j": -3,
    "i / 2.0": Decimal("3.500000"),
    "i * d": 17.5,
    "i + l": 10000000007,
    "i % j": 1,
    "MOD(-i, j)": -1,
    "d / z": float("inf"),
    "-d / z": float("-inf"),
    "x * 2": Decimal("24.690"),
    "CAST(i AS DOUBLE) / j": 3.5,
    # chains of any length, from left to right: the longest one passes the depth of a recursion, and operands after the
    # hundredth are folded, whatever their types are
    " + ".join(["i"] * 1000): 7000,
    " + i - ".join(["i"] * 61): 7,
    " + l - j + ".join(["i"] * 60): 60 * 7 + 59 * (10_000_000_000 - 2),
    " + ".join(["x"] * 120): Decimal("1481.400"),
    " + ".join(["i"] * 110 + ["d"] * 20): 820.0,
    " + ".join(["i"] * 110 + ["CAST(NULL AS INTEGER)"] + ["i"] * 20): None,
    " OR ".join(f"i = {number}" for number in range(8, 700)): False,
    " AND ".join(f"i <> {number}" for number in range(8, 50)): True,
    # conditions
    "i > j AND b": True,
    "i > j AND n = 'x'": None,
    "NOT (n = 'x' OR i = 7)": False,
    "n IS NULL": True,
    "b IS TRUE": True,
    "n IS DISTINCT FROM 'x'": True,
    "i IN (1, 7)": True,
    "i NOT BETWEEN 1 AND 5": True,
    "u LIKE '2024%'": True,
    "'a\\b' LIKE 'a\\b'": True,
    "'50%' LIKE '50!%' ESCAPE '!'": True,
    "CASE i WHEN 7 THEN 'seven' ELSE 'other' END": "seven",
    "CASE WHEN i > 100 THEN 1 END": None,
    "dt = '2024-01-31'": True,
    # values
    "a[1]": 5,
    "a[z]": None,
    "a[3]": None,
    "m['k']": 1,
    "m['none']": None,
    "st->f": "v",
    "ARRAY[1, 2]": [1, 2],
    "CAST(u AS TIMESTAMP)": datetime.datetime(2024, 1, 31, 10, 11, 12),
    "TRY_CAST('x' AS BIGINT)": None,
    "CAST('12345' AS VARCHAR(3))": "123",
    "CAST(d AS INTEGER)": 2,
    "ltz + INTERVAL '1' DAY": datetime.datetime(2024, 2, 1, 10, 11, 12, 500000, tzinfo=UTC),
    "dt + INTERVAL '1' DAY": datetime.date(2024, 2, 1),
    "t - INTERVAL '2' HOUR": datetime.datetime(2024, 1, 31, 8, 11, 12, 500000),
    "'it''s' || s": "it's Ab,c,,d ",
    # functions
    "COALESCE(n, e, s)": "",
    "NULLIF(i, 7)": None,
    "NULLIF(i, 8)": 7,
    "GREATEST(i, j)": 7,
    "GREATEST(n, 'x')": None,
    "LEAST(i, j, z)": 0,
    "CONCAT(e, s, n)": None,
    "CONCAT(e, u)": "2024-01-31 10:11:12",
    "UPPER(s)": " AB,C,,D ",
    "LOWER(s)": " ab,c,,d ",
    "TRIM(s)": "Ab,c,,d",
    "TRIM(LEADING ' A' FROM s)": "b,c,,d ",
    "TRIM(TRAILING 'd ' FROM s)": " Ab,c,,",
    "TRIM(BOTH '2' FROM u)": "024-01-31 10:11:1",
    "SUBSTRING(u, 1, 4)": "2024",
    "SUBSTRING(u, 6)": "01-31 10:11:12",
    "SUBSTRING(u, -2)": "12",
    "CHAR_LENGTH('grüß')": 4,
    "REPLACE(u, '-', '')": "20240131 10:11:12",
    "SPLIT_INDEX(s, ',', 0)": " Ab",
    "SPLIT_INDEX(s, ',', 2)": "",
    "SPLIT_INDEX(s, ',', 4)": None,
    "SPLIT_INDEX('a|b', '|', 1)": "b",
    "REGEXP_EXTRACT(u, '(\\d+)-(\\d+)', 2)": "01",
    "REGEXP_EXTRACT(u, '\\d+')": "2024",
    "REGEXP_EXTRACT(u, 'x+')": None,
    "ABS(-i)": 7,
    "ROUND(x, 2)": Decimal("12.35"),
    "ROUND(d)": 3.0,
    "FLOOR(d)": 2.0,
    "CEIL(d)": 3.0,
    "FLOOR(x)": Decimal(12),
    "FLOOR(i) / 2": 3,
    "TO_TIMESTAMP(u)": datetime.datetime(2024, 1, 31, 10, 11, 12),
    "TO_TIMESTAMP('31.01.2024', 'dd.MM.yyyy')": datetime.datetime(2024, 1, 31),
    "TO_TIMESTAMP('nonsense')": None,
    "TO_TIMESTAMP_LTZ(1700000000123, 3)": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
    "TO_TIMESTAMP_LTZ(1700000000, 0)": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    "TO_TIMESTAMP_LTZ(u)": datetime.datetime(2024, 1, 31, 10, 11, 12, tzinfo=UTC),
    "FROM_UNIXTIME(0)": "1970-01-01 00:00:00",
    "FROM_UNIXTIME(86400, 'yyyy/MM/dd')": "1970/01/02",
    "UNIX_TIMESTAMP('1970-01-01 00:01:00')": 60,
    "UNIX_TIMESTAMP('01.01.1970', 'dd.MM.yyyy')": 0,
    "UNIX_TIMESTAMP() > 1700000000": True,
    "DATE_FORMAT(t, 'yyyy-MM')": "2024-01",
    "DATE_FORMAT(u, 'HH')": "10",
    "CURRENT_TIMESTAMP > ltz": True,
    "JSON_VALUE(js, '$.a.b')": "1.0",
    "JSON_VALUE(js, '$.a')": None,
    "JSON_VALUE(js, '$.l')": None,
    "JSON_VALUE(js, '$.t')": "{x",
    "JSON_VALUE(js, '$.n')": None,
    "JSON_VALUE('no json', '$.n')": None,
    "CARDINALITY(a)": 2,
    "CARDINALITY(m)": 1,
    "POSITION('b' IN 'abc')": 2,
    "EXTRACT(HOUR FROM t)": 10,
    "CHAR_LENGTH(UUID())": 36,
    "RAND() < 1": True,
    "RAND_INTEGER(3) < 3": True,
    "CURRENT_DATE > dt": True,
    "UNHEX('6g')": None,
    "ENCODE('ü', 'UTF-8')": "ü".encode(),
    "CONCAT_WS(n, 'a')": None,
    "FROM_BASE64('***')": None,
    "URL_DECODE('%zz')": None,
    "PARSE_URL('no url at all', 'HOST')": None,
    "IS_ALPHA(n)": False,
    "IS_DECIMAL('')": False,
    "SHA2('a', 100)": None,
    "SPLIT(n, ',')": None,
    "SPLIT('a|b', '|')": ["a", "b"],
    "TRUNCATE(d)": 2.0,
    "TRUNCATE(i, 1)": 7,
    "TRUNCATE(-x, 1)": Decimal("-12.3"),
    "SIGN(-x)": Decimal("-1.000"),
    "LOG(1, 5)": None,
    "SQRT(-1) > 0": True,
    "TIMESTAMPADD(MONTH, 1, ltz)": datetime.datetime(2024, 2, 29, 10, 11, 12, 500000, tzinfo=UTC),
    "FLOOR(ltz TO MINUTE)": datetime.datetime(2024, 1, 31, 10, 11, tzinfo=UTC),
    "CEIL(t TO SECOND)": datetime.datetime(2024, 1, 31, 10, 11, 13),
    "FLOOR(t TO WEEK)": datetime.datetime(2024, 1, 29),
    "TIMESTAMPDIFF(DAY, dt, DATE '2024-03-01')": 30,
    "TIMESTAMPDIFF(SECOND, ltz, t)": 0,
    "EXTRACT(MILLISECOND FROM t)": 500,
    "EXTRACT(WEEK FROM dt)": 5,
    "EXTRACT(ISODOW FROM DATE '2024-02-04')": 7,
    "YEAR(dt)": 2024,
    "CONVERT_TZ('noon', 'UTC', 'UTC')": None,
    "JSON_EXISTS(n, '$')": None,
    "JSON_EXISTS(js, '$.l[0]')": True,
    "JSON_QUERY(js, '$.t')": None,
    "JSON_STRING(st)": '{"f":"v"}',
    "JSON_STRING(n)": None,
    "JSON_STRING(dt)": '"2024-01-31"',
    "IS_JSON(n)": False,
    "IF(n = 'x', 1, 2)": 2,
    "IF(b, i, l)": 7,
    "ARRAY_CONTAINS(ARRAY['a', n], n)": True,
    "ARRAY_REMOVE(ARRAY['a', n], n)": ["a"],
    "ARRAY_CONTAINS(CAST(NULL AS ARRAY<INTEGER>), 1)": None,
    "ARRAY_SORT(ARRAY['b', n, 'a'])": [None, "a", "b"],
    "ARRAY_SORT(ARRAY['b', n, 'a'], FALSE)": ["b", "a", None],
    "ARRAY_SLICE(a, 3)": [],
    "ARRAY_SLICE(a, 1, -2)": [5],
    "ARRAY_SLICE(a, CAST(n AS INTEGER))": None,
    "ARRAY_MAX(ARRAY[n, 'x'])": "x",
    "ARRAY_JOIN(ARRAY['a', n], '-')": "a",
    "ELEMENT(ARRAY_SLICE(a, 3))": None,
    "MAP['x', 1, 'y', 2]['y']": 2,
    "MAP_KEYS(MAP_UNION(m, MAP['z', 2]))": ["k", "z"],
    "MD5('a')": "0cc175b9c0f1b6a831c399e269772661",
    "SHA256('a')": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
}


EXAMPLES = [
    (example.call, example.call, example.gives)
    for one in (*ROW_FUNCTIONS.values(), *OPERATORS)
    for example in one.examples
]


def test_every_bound_node_has_a_visitor():
    assert {node.__name__ for node in BOUND_NODES} == set(VISITORS) | READ_BY_THEIR_PARENT


def test_every_plan_node_has_a_visitor():
    assert set(COMPILERS) == node_classes() - {Bundle}  # its sinks are visited one by one


@pytest.fixture(scope="module")
def evaluated(spark, tmp_path_factory):
    """All cases computed in one projection over one record: a row by column name, and the frame's types."""
    shown = [
        f"{text} AS {side}{n}" for n, (_, *pair) in enumerate(EXAMPLES) for side, text in zip("eg", pair, strict=True)
    ]
    shown = [column for column in shown if not column.startswith("NULL ")]
    listed = ", ".join([*(f"{text} AS c{n}" for n, text in enumerate(CASES)), *shown])
    sql = f"""CREATE STORE m WITH ('type' = MEMORY);
      CREATE STREAM s ({COLUMNS}) WITH ('topic' = 's', 'value.format' = 'json');
      CREATE STREAM d AS SELECT {listed} FROM s;"""
    folder = tmp_path_factory.mktemp("expressions")
    project = compile_texts([("test.sql", sql)], Settings(root=folder, sql=folder, state=folder, store="m"))
    assert not project.errors, "\n".join(found.text() for found in project.errors)
    root = project.queries["d"].root
    record = spark.createDataFrame(
        [(None, bytearray(ROW.encode()), datetime.datetime(2024, 1, 1), "0", "0")],
        "key binary, value binary, timestamp timestamp, partition string, `order` string",
    )
    frame = PlanCompiler(spark.newSession(), "job", lambda _: SourceFrame(record, PROVIDED, "m.s")).compile(root)
    return root, frame, frame.toArrow().to_pylist()[0]


def test_expressions(evaluated):
    root, frame, row = evaluated
    names = {text: f"c{number}" for number, text in enumerate(CASES)}
    declared = {field.name: field.type for field in root.output}
    found = {field.name: field.dataType for field in frame.schema}

    def check_expression(text):
        assert row[names[text]] == CASES[text]
        assert found[names[text]] == to_spark(declared[names[text]])

    check_every(CASES, check_expression)


def test_constant_texts_that_are_too_long_are_not_made(evaluated):
    """Spark computes constants while it plans, where no row fails yet."""
    _, frame, _ = evaluated
    for text in ("LPAD('a', 2147483648, 'bcd')", "REPEAT('abcd', 2147483647)", "PRINTF(CONCAT('%21', '47483647d'), 1)"):
        tree = parse_select(f"SELECT {text} AS x FROM s").tree.expressions[0].this
        rows = frame.limit(1).select(
            compile_expression(frame, ExpressionBinder(Scope(Span("t.sql", 1)), "SELECT").expression(tree))
        )
        rows._jdf.queryExecution().optimizedPlan()
        with pytest.raises(PySparkException, match="16777216"):
            rows.collect()


def test_examples(evaluated):
    row = evaluated[-1]

    def check_example(position):
        _, _, gives = EXAMPLES[position]
        found, expected = row[f"e{position}"], row.get(f"g{position}")
        assert (expected is None) == (gives == "NULL")
        assert found == (pytest.approx(float(expected)) if isinstance(found, float) else expected)

    check_every(range(len(EXAMPLES)), check_example, name=lambda position: EXAMPLES[position][1])
