"""What is said of constants without Java, asked of Java and Spark: nothing valid is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ds_dagster.functions.java_format import judge as judge_format
from ds_dagster.functions.java_regex import judge
from ds_dagster.functions.json_path import PathError, canonical
from ds_dagster.functions.values.formats import formatted
from ds_dagster.plan.expressions.constants import NO_PATTERN_LETTERS, NO_SPARK_LENGTHS, NO_SPARK_LETTERS
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.records.typemap import to_spark
from tests.functions.test_java_format import FORMATS, VALUES
from tests.functions.test_java_format import REFUSED as REFUSED_FORMATS
from tests.functions.test_java_regex import ACCEPTED, REFUSED

REFUSED_ON_PURPOSE = frozenset({"%h", "%t"})
"""Formats whose text would be Java's own."""
PARTS = (
    "a", "b", "7", ".", "\\d", "\\w", "\\(", "[", "]", "^", "-", "&&", "(", ")", "(?:", "(?i)", "(?=", "(?<n>", "*",
    "+", "?", "{2}", "{", "}", "|", "$", "\\", "\\Q", "\\E", "\\b", "\\p{L}", "\\x41", "{2,3}", "\\1", " ", ",", "(?!",
    "(?>",
)  # fmt: skip
PATHS = {
    "$": True, "$.a": True, "lax $.a": True, "$.a[0]": True, "$['a b']": True, '$["a"]': True, "$.ü": True,
    "$.a-b": True, "$.a['b']": True, "$[ 0 ]": True, "": False, "a.b": False, "$..b": False, "$.a[-1]": False,
    "$[": False, "$.*": False, "strict $.a": False, "$.a[?(@.b)]": False,
}  # fmt: skip


def test_java_says_the_same_of_known_expressions(spark):
    assert valid(spark, [*REFUSED, *ACCEPTED]) == {
        **dict.fromkeys(REFUSED, False), **dict.fromkeys(ACCEPTED, True), "(?x) (a": False,
    }  # fmt: skip


def test_no_expression_is_refused_that_java_takes(spark):
    chance = random.Random(13)
    texts = ["".join(chance.choices(PARTS, k=chance.randint(1, 7))) for _ in range(3000)]
    refused = [text for text in texts if judge(text)[0]]
    assert len(refused) > 1000
    assert [text for text, is_valid in valid(spark, refused).items() if is_valid] == []


def test_java_refuses_the_same_formats(spark):
    values = spark._sc._gateway.new_array(spark._jvm.java.lang.Object, 1)
    values[0] = 7
    taken = []
    for form in REFUSED_FORMATS:
        try:
            taken.append((form, spark._jvm.java.lang.String.format(form, values)))
        except (IllegalArgumentException, Py4JJavaError):
            continue
    assert {form for form, _ in taken} <= REFUSED_ON_PURPOSE


def test_formats_give_the_texts_of_java(spark):
    pairs = [
        (form, value, type_)
        for form in FORMATS
        for value, type_ in VALUES
        if not judge_format(form, [type_]) and ("c" not in form or value in (65, None))
    ]
    assert len(pairs) > 500
    columns = [sf.printf(sf.lit(form), sf.lit(value).cast(to_spark(type_))) for form, value, type_ in pairs]
    ours = [formatted(form, [value], [type_]) for form, value, type_ in pairs]
    javas = list(spark.range(1).select(*columns).first())
    wrong = [(*pair, java, own) for pair, java, own in zip(pairs, javas, ours, strict=True) if java != own]
    assert not wrong, "\n".join(map(str, wrong))


def valid(spark: SparkSession, texts: Sequence[str]) -> dict[str, bool]:
    """Whether Java compiles each of these expressions; one job, in which a failure leaves its reason."""
    rows = spark.createDataFrame([(text,) for text in texts], "pattern string")
    matched = sf.regexp_like(sf.lit(""), "pattern").alias("matched")
    guarded = operators(spark).guard(sf.struct("pattern"), rows.schema, [matched])
    return {text: reason is None for text, reason in rows.select("pattern", guarded.getField("reason")).collect()}


def test_java_knows_none_of_the_letters_that_are_refused(spark):
    for letter in NO_PATTERN_LETTERS:
        for java in (spark._jvm.java.time.format.DateTimeFormatter.ofPattern, spark._jvm.java.text.SimpleDateFormat):
            with pytest.raises(IllegalArgumentException, match=r"(?i)illegal|unknown pattern letter"):
                java(letter)


def test_spark_writes_none_of_the_patterns_that_are_refused(spark):
    for pattern in (*sorted(NO_SPARK_LETTERS), *NO_SPARK_LENGTHS):
        with pytest.raises(PySparkException):
            spark.range(1).select(sf.date_format(sf.timestamp_seconds("id"), pattern)).collect()


@pytest.mark.parametrize("path", PATHS)
def test_spark_reads_every_path_that_is_accepted(spark, path):
    if not PATHS[path]:
        with pytest.raises(PathError):
            canonical(path)
        return
    text = '{"a b": 1, "a": [{"b": 1}], "ü": 2, "a-b": 3}'
    made = sf.call_function("variant_get", sf.parse_json(sf.lit(text)), sf.lit(canonical(path)), sf.lit("variant"))
    assert len(spark.range(1).select(sf.to_json(made)).collect()) == 1
