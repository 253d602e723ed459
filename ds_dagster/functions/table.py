"""The table of all functions of the dialect, from the files of their families."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ds_dagster.functions.families.aggregates import AGGREGATE_FUNCTIONS
from ds_dagster.functions.families.arrays import ARRAY_FUNCTIONS
from ds_dagster.functions.families.bits import BIT_FUNCTIONS
from ds_dagster.functions.families.codes import CODE_FUNCTIONS
from ds_dagster.functions.families.conditions import CONDITIONAL_FUNCTIONS
from ds_dagster.functions.families.json_texts import JSON_FUNCTIONS
from ds_dagster.functions.families.maps import MAP_FUNCTIONS
from ds_dagster.functions.families.numeric import NUMBER_FUNCTIONS
from ds_dagster.functions.families.ordered_aggregates import ORDERED_AGGREGATES
from ds_dagster.functions.families.plan_functions import PLAN_FUNCTIONS
from ds_dagster.functions.families.regexes import REGEX_FUNCTIONS
from ds_dagster.functions.families.text_parts import TEXT_PART_FUNCTIONS
from ds_dagster.functions.families.texts import TEXT_FUNCTIONS
from ds_dagster.functions.families.times import TIME_FUNCTIONS
from ds_dagster.functions.families.window_functions import WINDOW_FUNCTIONS
from ds_dagster.functions.function import Function, RowFunction
from ds_dagster.functions.group_function import GroupFunction, OnlyOver

_SCALARS: tuple[RowFunction, ...] = (
    *CONDITIONAL_FUNCTIONS,
    *TEXT_FUNCTIONS,
    *TEXT_PART_FUNCTIONS,
    *REGEX_FUNCTIONS,
    *CODE_FUNCTIONS,
    *NUMBER_FUNCTIONS,
    *BIT_FUNCTIONS,
    *TIME_FUNCTIONS,
    *JSON_FUNCTIONS,
    *ARRAY_FUNCTIONS,
    *MAP_FUNCTIONS,
)
ROW_FUNCTIONS: Mapping[str, RowFunction] = MappingProxyType({f.name: f for f in _SCALARS})
"""Name → function of one row."""
GROUP_FUNCTIONS: Mapping[str, GroupFunction] = MappingProxyType(
    {f.name: f for f in (*AGGREGATE_FUNCTIONS, *ORDERED_AGGREGATES)}
)
"""Name → aggregate."""
OTHER_ROWS: Mapping[str, str] = MappingProxyType(
    {f.name: f.question for f in WINDOW_FUNCTIONS}
    | {f.name: f.question.name for f in GROUP_FUNCTIONS.values() if isinstance(f.question, OnlyOver)}
)
"""Function of other rows, which questions support with OVER only → DuckDB's function."""
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {f.name: f for f in (*_SCALARS, *PLAN_FUNCTIONS, *GROUP_FUNCTIONS.values(), *WINDOW_FUNCTIONS)}
)
"""Function name (upper case) → definition."""

ALIASES: Mapping[str, str] = MappingProxyType({alias: f.name for f in FUNCTIONS.values() for alias in f.aliases})
"""Other spelling → key of :data:`FUNCTIONS`."""

KNOWN_LATER: Mapping[str, str] = MappingProxyType(
    {"JSON_OBJECTAGG": "write JSON_ARRAYAGG(JSON_OBJECT('key' VALUE k, 'value' VALUE v))"}
    | {
        "DATEDIFF": "write TIMESTAMPDIFF(DAY, first, second), with the earlier time first",
        "DATE_DIFF": "write TIMESTAMPDIFF(DAY, first, second), with the earlier time first",
        "DATE_ADD": "write TIMESTAMPADD(DAY, n, time), or time + INTERVAL 'n' DAY",
        "DATE_SUB": "write TIMESTAMPADD(DAY, -n, time), or time - INTERVAL 'n' DAY",
        "DATEADD": "write TIMESTAMPADD(DAY, n, time), or time + INTERVAL 'n' DAY",
        "TO_CHAR": "write DATE_FORMAT(time, 'yyyy-MM-dd'), with Java's letters",
        "LEN": "write CHAR_LENGTH(text)",
        "STRPOS": "write POSITION(part IN text)",
        "GETDATE": "write CURRENT_TIMESTAMP",
        "GET_JSON_OBJECT": "write JSON_VALUE(text, '$.name') or, for objects and arrays, JSON_QUERY",
        "EXTRACTJSONFIELD": "write JSON_VALUE(text, '$.name') or, for objects and arrays, JSON_QUERY",
        "TYPEOF": "DESCRIBE relation shows the type of a column, ds explain that of an expression",
        "EXPLODE": "write it in FROM: relation CROSS JOIN UNNEST(array) AS t(name)",
    }
    | {"APPROX_PERCENTILE": "write PERCENTILE(x, 0.9), which is exact"}
)
"""Functions that are not built: name → what to write instead."""

MISPLACED: Mapping[str, str] = MappingProxyType(
    {
        "UNNEST": "write it in FROM: relation CROSS JOIN UNNEST(array) AS t(name)",
        "MATCH_ROWTIME": "write it in MEASURES of MATCH_RECOGNIZE; elsewhere rowtime() gives a record's timestamp",
    }
    | {function.name: function.instead for function in WINDOW_FUNCTIONS}
)
"""Functions that are no expression of their own: name → where to write them."""


_WINDOW = "a window is written in FROM: SELECT … FROM {0}(relation, {1}) GROUP BY window_start, window_end"
_ELEMENTS = "make rows of the elements: SELECT {0} FROM relation CROSS JOIN UNNEST(array) AS t(e){1}"
_NUMBERS = (
    "make rows of numbers: SELECT i FROM relation CROSS JOIN UNNEST(SPLIT(REPEAT(',', n - 1), ',')) WITH ORDINALITY AS "
    "t(e, i); an array of constants is ARRAY[1, 2, 3]"
)
OF_OTHER_DIALECTS: Mapping[str, str] = MappingProxyType(
    {
        "TUMBLE": _WINDOW.format("TUMBLE", "SIZE n unit"),
        "HOP": _WINDOW.format("HOP", "SIZE n unit, ADVANCE BY n unit"),
        "CUMULATE": _WINDOW.format("CUMULATE", "SIZE n unit, STEP n unit"),
        "SESSION": _WINDOW.format("SESSION", "GAP n unit"),
        "ATTR": "write ANY_VALUE(value)",
        "CBRT": "write SIGN(x) * POWER(ABS(x), 1e0 / 3)",
        "ENTRIES": "write MAP_ENTRIES(map)",
        "FIELD": "write CASE text WHEN first THEN 1 WHEN second THEN 2 ELSE 0 END",
        "FILTER": _ELEMENTS.format("e", " WHERE …"),
        **dict.fromkeys(("GENERATE_ARRAY", "GENERATE_SERIES", "SEQUENCE"), _NUMBERS),
        "PARSE_DATE": "write TO_DATE(text, 'yyyy-MM-dd'), with Java's letters",
        "PARSE_TIMESTAMP": "write TO_TIMESTAMP(text, 'yyyy-MM-dd HH:mm:ss'), with Java's letters",
        "REDUCE": _ELEMENTS.format("SUM(e) AS total", ""),
        "REGEXP_SPLIT_TO_ARRAY": "write SPLIT(text, delimiter)",
        "SLICE": "write ARRAY_SLICE(array, first, last)",
        "SUM_LIST": _ELEMENTS.format("SUM(e) AS total", ""),
        "TOPK": "rank the rows: SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM "
        "relation) q WHERE n <= 3",
        "TRANSFORM": _ELEMENTS.format("f(e) AS x", ""),
        "URL_EXTRACT_FRAGMENT": "write PARSE_URL(url, 'REF')",
        "URL_EXTRACT_HOST": "write PARSE_URL(url, 'HOST')",
        "URL_EXTRACT_PATH": "write PARSE_URL(url, 'PATH')",
        "URL_EXTRACT_PORT": "write REGEXP_EXTRACT(url, '://[^/]*:([0-9]+)', 1)",
        "URL_EXTRACT_PROTOCOL": "write PARSE_URL(url, 'PROTOCOL')",
        "URL_EXTRACT_QUERY": "write PARSE_URL(url, 'QUERY')",
    }
)
"""Functions of other dialects: name → what to write instead. A function of the user may have such a name."""


def find_function(name: str) -> Function | None:
    """The function of that spelling in any case, or None."""
    upper = name.upper()
    return FUNCTIONS.get(ALIASES.get(upper, upper))
