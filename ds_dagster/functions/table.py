"""The functions of the dialect: the one table of all of them. Importable without Spark.

The functions of one row stand in ``text_functions``, ``number_functions``, ``time_functions``, ``json_functions`` and
``collection_functions``; ``spark/functions/table.py`` has the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    VARCHAR,
    ArrayType,
    DataType,
    Scalar,
    StructType,
    decimal,
    is_integer,
)
from ds_dagster.functions.arrays import ARRAY_FUNCTIONS
from ds_dagster.functions.codes import CODE_FUNCTIONS
from ds_dagster.functions.conditions import CONDITIONAL_FUNCTIONS
from ds_dagster.functions.function import Function, first, signature
from ds_dagster.functions.json_texts import JSON_FUNCTIONS
from ds_dagster.functions.maps import MAP_FUNCTIONS
from ds_dagster.functions.numeric import NUMBER_FUNCTIONS
from ds_dagster.functions.regexes import REGEX_FUNCTIONS
from ds_dagster.functions.text_parts import TEXT_PART_FUNCTIONS
from ds_dagster.functions.texts import TEXT_FUNCTIONS
from ds_dagster.functions.times import TIME_FUNCTIONS


def _sum(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if is_integer(type_):
        return BIGINT
    if isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(38, type_.scale or 0)
    return DOUBLE


def _average(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(38, max(type_.scale or 0, 6))
    return DOUBLE


def _array(types: Sequence[DataType]) -> DataType:
    return ArrayType(types[0])


_METADATA = (
    Function(
        "ROWTIME",
        (signature("", BIGINT),),
        "the record's own timestamp, epoch milliseconds",
        kind="metadata",
        nulls="never",
        aliases=("ROW_TIMESTAMP",),
    ),
    Function(
        "ROWKEY",
        (signature("", VARCHAR),),
        "the record's key as text",
        kind="metadata",
        nulls="always",
        aliases=("ROW_KEY",),
    ),
    Function(
        "ROWMETADATA",
        (signature("", StructType(())),),
        "where the record stands: Kafka topic, partition, offset, timestamp_type, headers; Kinesis stream, "
        "partition_key, shard_id, sequence_number",
        kind="metadata",
        nulls="never",
        aliases=("ROW_METADATA",),
    ),
)

_AGGREGATES = (
    Function(
        "COUNT", (signature("any?", BIGINT),), "rows, or values that are not NULL", kind="aggregate", nulls="never"
    ),
    Function(
        "SUM",
        (signature("number", _sum),),
        "whole numbers to BIGINT, DECIMAL(p,s) to DECIMAL(38,s), floats to DOUBLE",
        kind="aggregate",
    ),
    Function("AVG", (signature("number", _average),), "DOUBLE; DECIMAL(p,s) to DECIMAL(38,max(s,6))", kind="aggregate"),
    Function("MIN", (signature("orderable", first),), "smallest value that is not NULL", kind="aggregate"),
    Function("MAX", (signature("orderable", first),), "largest value that is not NULL", kind="aggregate"),
    Function("VAR_POP", (signature("number", DOUBLE),), "variance of all values", kind="aggregate"),
    Function(
        "VAR_SAMP",
        (signature("number", DOUBLE),),
        "variance of a sample; NULL of one value",
        kind="aggregate",
        nulls="always",
        aliases=("VARIANCE",),
    ),
    Function("STDDEV_POP", (signature("number", DOUBLE),), "standard deviation of all values", kind="aggregate"),
    Function(
        "STDDEV_SAMP",
        (signature("number", DOUBLE),),
        "standard deviation of a sample; NULL of one value",
        kind="aggregate",
        nulls="always",
        aliases=("STDDEV",),
    ),
    Function(
        "ARRAY_AGG",
        (signature("comparable", _array),),
        "all values that are not NULL, in their own order; NULL without any",
        kind="aggregate",
        aliases=("COLLECT",),
    ),
    Function(
        "LISTAGG",
        (signature("text text?", VARCHAR),),
        "all texts that are not NULL, in their own order, with the second argument (a literal, ',') between them; NULL "
        "without any",
        kind="aggregate",
        aliases=("STRING_AGG",),
    ),
    Function(
        "JSON_ARRAYAGG",
        (signature("comparable", VARCHAR),),
        "all values that are not NULL, in their own order, as a JSON array; `[]` without any; what "
        "functions of JSON give stands inside as JSON",
        kind="aggregate",
        nulls="never",
    ),
    Function(
        "FIRST_VALUE",
        (signature("any", first),),
        "value that is not NULL of the earliest row: by event time, then by position in its topic; in a join those of "
        "the first relation of FROM",
        kind="aggregate",
    ),
    Function("LAST_VALUE", (signature("any", first),), "the same of the latest row", kind="aggregate"),
    Function(
        "MIN_BY",
        (signature("any orderable", first),),
        "first argument in the row where the second is smallest; rows in which either is NULL do not count; of several "
        "such rows the smallest first argument",
        kind="aggregate",
    ),
    Function(
        "MAX_BY",
        (signature("any orderable", first),),
        "the same where the second is largest; of several such rows the largest first argument",
        kind="aggregate",
    ),
    Function(
        "ANY_VALUE",
        (signature("orderable", first),),
        "one of the values that are not NULL: the smallest, so that it is always the same",
        kind="aggregate",
    ),
    Function(
        "BOOL_AND",
        (signature("boolean", BOOLEAN),),
        "whether all values that are not NULL are true; NULL without any",
        kind="aggregate",
        aliases=("EVERY",),
    ),
    Function(
        "BOOL_OR",
        (signature("boolean", BOOLEAN),),
        "whether any value is true; NULL without any that is not NULL",
        kind="aggregate",
        aliases=("SOME",),
    ),
    Function(
        "PERCENTILE",
        (signature("number number", DOUBLE),),
        "the value below which that part (a literal from 0 to 1) of all values is, between two of them where none is; "
        "exact, so every value is kept. `PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)` is `PERCENTILE(x, 0.9)`",
        kind="aggregate",
        aliases=("PERCENTILE_CONT", "QUANTILE"),
    ),
    Function(
        "PERCENTILE_DISC",
        (signature("orderable number", first),),
        "the smallest of the values that at least that part of them do not exceed, also as `PERCENTILE_DISC(0.9) "
        "WITHIN GROUP (ORDER BY x)`",
        kind="aggregate",
    ),
    Function(
        "MEDIAN",
        (signature("number", DOUBLE),),
        "the value in the middle, or half-way between the two there: `PERCENTILE(x, 0.5)`",
        kind="aggregate",
    ),
    Function(
        "APPROX_COUNT_DISTINCT",
        (signature("hashable", BIGINT),),
        "how many different values; over a stream, with or without a window, an estimate with a standard deviation of "
        "5 % in state of fixed size, over changelogs and other aggregates exact, as COUNT(DISTINCT …)",
        kind="aggregate",
        nulls="never",
    ),
)

_GROUPING = Function(
    "GROUPING",
    (signature("any+", BIGINT),),
    "0 where a row of GROUPING SETS, ROLLUP or CUBE is grouped by the expression, else 1; of several expressions their "
    "bits, the first one's the highest",
    kind="grouping",
    nulls="never",
    aliases=("GROUPING_ID",),
)

_SCALARS = (
    *CONDITIONAL_FUNCTIONS,
    *TEXT_FUNCTIONS,
    *TEXT_PART_FUNCTIONS,
    *REGEX_FUNCTIONS,
    *CODE_FUNCTIONS,
    *NUMBER_FUNCTIONS,
    *TIME_FUNCTIONS,
    *JSON_FUNCTIONS,
    *ARRAY_FUNCTIONS,
    *MAP_FUNCTIONS,
)
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {f.name: f for f in (*_SCALARS, *_METADATA, *_AGGREGATES, _GROUPING)}
)
"""Function name (upper case) → definition."""

ALIASES: Mapping[str, str] = MappingProxyType({alias: f.name for f in FUNCTIONS.values() for alias in f.aliases})
"""Other spelling → key of :data:`FUNCTIONS`."""

KNOWN_LATER: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "NTILE"),
        "ranking over a stream comes with top-n; filter or aggregate instead",
    )
    | {"JSON_OBJECTAGG": "JSON_ARRAYAGG of JSON_OBJECT"}
    | {
        "LEAD": "a row waits for no row behind it: write LAG(value) OVER (…), and read the row that follows; or "
        "MATCH_RECOGNIZE (… PATTERN (a b) …) for two rows as one",
        "DATEDIFF": "write TIMESTAMPDIFF(DAY, first, second), with the earlier time first",
        "DATE_DIFF": "write TIMESTAMPDIFF(DAY, first, second), with the earlier time first",
        "DATE_ADD": "write TIMESTAMPADD(DAY, n, time), or time + INTERVAL 'n' DAY",
        "DATE_SUB": "write TIMESTAMPADD(DAY, -n, time), or time - INTERVAL 'n' DAY",
        "TYPEOF": "the type of a column stands in DESCRIBE relation, that of an expression in ds explain",
        "EXPLODE": "write it in FROM: relation CROSS JOIN UNNEST(array) AS t(name)",
        "UNNEST": "write it in FROM: relation CROSS JOIN UNNEST(array) AS t(name)",
    }
    | {"APPROX_PERCENTILE": "PERCENTILE(x, 0.9), which is exact"}
    | {"MATCH_ROWTIME": "pattern matching is not built; rowtime() gives a record's timestamp"}
)
"""Functions of the dialect that are not built: name → what works today."""


def find_function(name: str) -> Function | None:
    """The function of that spelling in any case, or None."""
    upper = name.upper()
    return FUNCTIONS.get(ALIASES.get(upper, upper))
