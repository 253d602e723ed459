"""Every function of the dialect in questions; the keys are those of ``functions/table.py`` (a test holds them
equal, and evaluates the examples of each)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ds_dagster.datatypes import Scalar
from ds_dagster.functions.json_texts import JSON_TEXTS
from ds_dagster.functions.question import Call, Computed, Meaning, Native, named, native, nullable, strict
from ds_dagster.functions.values import json_texts, times
from ds_dagster.functions.values.casts import read_moment
from ds_dagster.questions.functions.numeric import NUMBER_FUNCTIONS
from ds_dagster.questions.functions.texts import TEXT_FUNCTIONS

# --- conditions -------------------------------------------------------------------------------------------------------


def _none_null(name: str) -> Native:
    """GREATEST and LEAST: DuckDB leaves NULLs out, the dialect does not."""

    def build(call: Call) -> exp.Expression:
        nulls = [exp.Is(this=argument.copy(), expression=exp.Null()) for argument in call.arguments]
        some_null = nulls[0] if len(nulls) == 1 else exp.or_(*nulls)
        branch = exp.If(this=some_null, true=exp.Null())
        return exp.Case(ifs=[branch], default=named(name, *call.arguments))

    return Native(build)


def _if(call: Call) -> exp.Expression:
    condition, first, second = call.arguments
    return exp.Case(ifs=[exp.If(this=condition, true=first)], default=second)


CONDITIONAL_FUNCTIONS: Mapping[str, Meaning] = MappingProxyType(
    {
        "COALESCE": native("coalesce"),
        "NULLIF": native("nullif"),
        "IF": Native(_if),
        "GREATEST": _none_null("greatest"),
        "LEAST": _none_null("least"),
    }
)

# --- times ------------------------------------------------------------------------------------------------------------


def _zoned(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=timezone.utc)


def _to_timestamp_ltz(value: Any, second: Any = 3) -> datetime | None:
    if isinstance(value, str):
        return _zoned(times.parsed(value, second if isinstance(second, str) else times.DEFAULT_PATTERN))
    return times.after_epoch(float(value) if second == 0 else int(value) / 1000)


def _date_format(value: Any, pattern: str) -> str | None:
    if not isinstance(value, str):
        return times.formatted(value, pattern)
    try:
        return times.formatted(read_moment(value), pattern)
    except ValueError:
        return None


def _to_date(text: str, pattern: str = times.DATE_PATTERN) -> Any:
    moment = times.parsed(text, pattern, whole=False)
    return None if moment is None else moment.date()


def _unix_timestamp(call: Call) -> Callable[..., Any]:
    def function(text: str, pattern: str = times.DEFAULT_PATTERN) -> int | None:
        moment = times.parsed(text, pattern, whole=False)
        return None if moment is None else times.epoch_micros(moment) // 1_000_000

    return function if call.arguments else lambda: times.epoch_micros(datetime.now(timezone.utc)) // 1_000_000


def _at_time_zone(call: Call) -> Callable[..., Any]:
    """What a TIMESTAMP is by the clock of a zone, or what that clock shows at a TIMESTAMP_LTZ."""
    is_moment = isinstance(call.result, Scalar) and call.result.name == "TIMESTAMP"
    return times.clock_of if is_moment else times.moment_of


def _part(unit: str) -> Computed:
    return strict(lambda moment: times.part(unit, moment))


TIME_FUNCTIONS: Mapping[str, Meaning] = MappingProxyType(
    {
        "TO_DATE": strict(_to_date),
        "TO_TIMESTAMP": strict(times.parsed),
        "TO_TIMESTAMP_LTZ": strict(_to_timestamp_ltz),
        "FROM_UNIXTIME": strict(
            lambda seconds, pattern=times.DEFAULT_PATTERN: times.formatted(times.after_epoch(seconds), pattern)
        ),
        "UNIX_TIMESTAMP": Computed(_unix_timestamp),
        "DATE_FORMAT": strict(_date_format),
        "CONVERT_TZ": strict(times.converted),
        "AT_TIME_ZONE": Computed(_at_time_zone),
        "CURRENT_TIMESTAMP": native("now"),
        "CURRENT_DATE": native("today"),
        "EXTRACT": strict(times.part),
        "YEAR": _part("YEAR"),
        "QUARTER": _part("QUARTER"),
        "MONTH": _part("MONTH"),
        "WEEK": _part("WEEK"),
        "DAYOFYEAR": _part("DOY"),
        "DAYOFMONTH": _part("DAY"),
        "DAYOFWEEK": _part("DOW"),
        "HOUR": _part("HOUR"),
        "MINUTE": _part("MINUTE"),
        "SECOND": _part("SECOND"),
        "TIMESTAMPDIFF": strict(times.difference),
        "TIMESTAMPADD": strict(lambda unit, count, moment: times.moved(moment, count, unit)),
        "TIME_FLOOR": strict(times.floor),
        "TIME_CEIL": strict(times.ceil),
    }
)

# --- JSON -------------------------------------------------------------------------------------------------------------


def _json_parts(call: Call, values: Sequence[Any]) -> list[str | None]:
    """Arguments as JSON; what functions of JSON give stands inside as it is."""
    parts: list[str | None] = []
    for value, tree, type_ in zip(values, call.written, call.types, strict=True):
        is_json = isinstance(tree, exp.Anonymous) and str(tree.this) in JSON_TEXTS
        parts.append(value if is_json else json_texts.as_json(value, type_))
    return parts


def _built(build: Callable[..., str], *, absent: bool) -> Computed:
    return Computed(lambda call: lambda *values: build(_json_parts(call, values), absent=absent), takes_nulls=True)


def _exists(text: str | None, path: str) -> bool | None:
    return None if text is None else json_texts.at(text, path) is not json_texts.ABSENT


JSON_FUNCTIONS: Mapping[str, Meaning] = MappingProxyType(
    {
        "JSON_VALUE": strict(json_texts.scalar),
        "JSON_QUERY": strict(json_texts.nested),
        "JSON_EXISTS": strict(_exists),
        "JSON_STRING": Computed(lambda call: lambda value: json_texts.as_json(value, call.types[0])),
        "JSON_OBJECT": _built(json_texts.json_object, absent=False),
        "JSON_OBJECT_ABSENT": _built(json_texts.json_object, absent=True),
        "JSON_ARRAY": _built(json_texts.json_array, absent=True),
        "JSON_ARRAY_NULL": _built(json_texts.json_array, absent=False),
        "JSON_QUOTE": strict(json_texts.quote),
        "JSON_UNQUOTE": strict(json_texts.unquoted),
        "IS_JSON": nullable(json_texts.is_json),
    }
)

# --- collections ------------------------------------------------------------------------------------------------------


def _only(values: list[Any]) -> Any:
    if len(values) > 1:
        raise ValueError("ELEMENT of an ARRAY with more than one element")
    return values[0] if values else None


def _distinct(values: list[Any]) -> list[Any]:
    return [value for place, value in enumerate(values) if value not in values[:place]]


def _ordered(values: list[Any], upwards: bool = True) -> list[Any]:
    present = sorted((value for value in values if value is not None), reverse=not upwards)
    nulls = [None] * (len(values) - len(present))
    return nulls + present if upwards else present + nulls


def _slice(values: list[Any], first: int, last: int | None = None) -> list[Any]:
    def place(bound: int) -> int:
        return len(values) + bound + 1 if bound < 0 else bound or 1

    end = len(values) if last is None else place(last)
    return values[max(place(first) - 1, 0) : max(end, 0)]


def _extreme(choose: Callable[[list[Any]], Any]) -> Computed:
    def function(values: list[Any]) -> Any:
        present = [value for value in values if value is not None]
        return choose(present) if present else None

    return strict(function)


def _joined(values: list[Any], separator: str, null: str | None = None) -> str:
    shown = [null if value is None else value for value in values]
    return separator.join(value for value in shown if value is not None)


def _entries(pairs: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs.items()]


def _map_from(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    if len(keys) != len(values) or len(set(keys)) != len(keys) or None in keys:
        raise ValueError("keys and values of a MAP are of equal number, no key is NULL or comes twice")
    return dict(zip(keys, values, strict=True))


def _text_to_map(text: str, between: str = ",", inside: str = "=") -> dict[str, str | None]:
    if not text:
        return {}
    pairs = (re.split(inside, part, maxsplit=1) for part in re.split(between, text))
    return {pair[0]: pair[1] if len(pair) > 1 else None for pair in pairs}


def _place(values: list[Any], wanted: Any) -> int:
    return values.index(wanted) + 1 if wanted in values else 0


COLLECTION_FUNCTIONS: Mapping[str, Meaning] = MappingProxyType(
    {
        "CARDINALITY": strict(len),
        "STR_TO_MAP": strict(_text_to_map),
        "ELEMENT": strict(_only),
        "ARRAY_CONTAINS": nullable(lambda values, wanted: None if values is None else wanted in values),
        "ARRAY_POSITION": strict(_place),
        "ARRAY_APPEND": nullable(lambda values, new: None if values is None else [*values, new]),
        "ARRAY_PREPEND": nullable(lambda values, new: None if values is None else [new, *values]),
        "ARRAY_REMOVE": nullable(
            lambda values, unwanted: None if values is None else [value for value in values if value != unwanted]
        ),
        "ARRAY_CONCAT": strict(lambda *lists: [value for values in lists for value in values]),
        "ARRAY_UNION": strict(lambda first, second: _distinct([*first, *second])),
        "ARRAY_INTERSECT": strict(lambda first, second: _distinct([value for value in first if value in second])),
        "ARRAY_EXCEPT": strict(lambda first, second: _distinct([value for value in first if value not in second])),
        "ARRAY_DISTINCT": strict(_distinct),
        "ARRAY_REVERSE": strict(lambda values: values[::-1]),
        "ARRAY_SORT": strict(_ordered),
        "ARRAY_SLICE": strict(_slice),
        "ARRAY_MAX": _extreme(max),
        "ARRAY_MIN": _extreme(min),
        "ARRAY_JOIN": strict(_joined),
        "MAP_KEYS": strict(lambda pairs: list(pairs)),
        "MAP_VALUES": strict(lambda pairs: list(pairs.values())),
        "MAP_ENTRIES": strict(_entries),
        "MAP_FROM_ARRAYS": strict(_map_from),
        "MAP_UNION": strict(lambda first, second: {**first, **second}),
    }
)
SCALARS: Mapping[str, Meaning] = MappingProxyType(
    {
        **CONDITIONAL_FUNCTIONS,
        **TEXT_FUNCTIONS,
        **NUMBER_FUNCTIONS,
        **TIME_FUNCTIONS,
        **JSON_FUNCTIONS,
        **COLLECTION_FUNCTIONS,
    }
)
"""Scalar function → meaning in a question."""
