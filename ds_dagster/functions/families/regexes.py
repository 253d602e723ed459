"""Functions of Java's regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ds_dagster.datatypes import BOOLEAN, INTEGER, VARCHAR
from ds_dagster.functions.constants import Constant
from ds_dagster.functions.families.text_parts import TEXTS
from ds_dagster.functions.function import RowFunction, scalar
from ds_dagster.functions.python_regex import compiled
from ds_dagster.functions.question import strict
from ds_dagster.functions.spark import Functions, OfCall, SparkCall

# --- Spark ------------------------------------------------------------------------------------------------------------

LONE_DOLLAR = r"\\|\$(?![0-9{])"
"""Characters of a replacement that are plain in the dialect and special in Java; they get a backslash."""


def _spark_groups(method: str, default: int) -> OfCall:
    """A group that takes no part in a match gives NULL; Spark's functions give an empty text."""

    def build(f: Functions, call: SparkCall) -> Any:
        text, pattern, *group = call.columns
        return call.java.scalar(method, text, pattern, (group[0] if group else f.lit(default)).cast("int"))

    return OfCall(build)


def _spark_replace(f: Functions, call: SparkCall) -> Any:
    """``$1`` is a group; every other ``$``, and a backslash, is itself."""
    text, pattern, replacement = call.columns
    written = call.literal(2)
    if written is not None:
        replacement = f.lit(re.sub(LONE_DOLLAR, r"\\\g<0>", written))
    else:
        replacement = f.regexp_replace(replacement, f.lit(LONE_DOLLAR), f.lit("\\\\$0"))
    return f.call_function("regexp_replace", text, pattern, replacement)


# --- questions --------------------------------------------------------------------------------------------------------


def java_split(text: str, pattern: str, most: int = 0) -> list[str]:
    """The parts of a text as Java's ``String.split`` gives them: no empty part before an empty match at the start, and
    without a limit (``most`` 0) no empty parts at the end."""
    parts: list[str] = []
    begin = 0
    for match in compiled(pattern).finditer(text):
        if most and len(parts) == most - 1:
            break
        if begin == match.end() == 0:
            continue
        parts.append(text[begin : match.start()])
        begin = match.end()
    if begin == 0:
        return [text]
    parts.append(text[begin:])
    while not most and parts and not parts[-1]:
        parts.pop()
    return parts


def _replaced(text: str, pattern: str, by: str) -> str:
    return compiled(pattern).sub(_replacement(by), text)


@lru_cache(maxsize=256)
def _replacement(java: str) -> str:
    """``$1`` and ``${name}`` are groups; a backslash and any other ``$`` are plain characters."""

    def part(match: re.Match[str]) -> str:
        name, number = match.groups()
        return f"\\g<{name or number}>" if name or number else "\\\\"

    return re.sub(r"\$\{(\w+)\}|\$(\d)|\\", part, java)


def _extracted(text: str, pattern: str, group: int = 0) -> str | None:
    expression = compiled(pattern)
    _check_group(expression, group)
    match = expression.search(text)
    return None if match is None else match.group(group)


def _extracted_all(text: str, pattern: str, group: int = 1) -> list[str | None]:
    expression = compiled(pattern)
    _check_group(expression, group)
    return [match.group(group) for match in expression.finditer(text)]


def _check_group(expression: re.Pattern[str], group: int) -> None:
    if not 0 <= group <= expression.groups:
        raise ValueError(f"'{expression.pattern}' has {expression.groups} groups, but no group {group}")


def _first_place(text: str, pattern: str) -> int:
    match = compiled(pattern).search(text)
    return 0 if match is None else match.start() + 1


def _first_match(text: str, pattern: str) -> str | None:
    match = compiled(pattern).search(text)
    return None if match is None else match.group(0)


# --- records ----------------------------------------------------------------------------------------------------------

REGEX_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "REGEXP",
        "text text",
        BOOLEAN,
        "whether a part of the text matches a Java regular expression",
        ("REGEXP('ab12', '[0-9]+')", "TRUE"),
        aliases=("REGEXP_LIKE",),
        spark="rlike",
        question=strict(lambda text, pattern: compiled(pattern).search(text) is not None),
        constants=(Constant("regex", 1),),
    ),
    scalar(
        "REGEXP_EXTRACT",
        "text text integer?",
        VARCHAR,
        "group of the first match of a Java regular expression (default group 0, the whole match); NULL without a "
        "match, or if the group takes no part in it",
        ("REGEXP_EXTRACT('a=1;b=2', '(\\w)=(\\d)', 2)", "'1'"),
        nulls="always",
        spark=_spark_groups("Groups.first", 0),
        question=strict(_extracted),
        constants=(Constant("regex", 1, group=0),),
    ),
    scalar(
        "REGEXP_EXTRACT_ALL",
        "text text integer?",
        TEXTS,
        "group (default 1) of every match of a Java regular expression",
        ("REGEXP_EXTRACT_ALL('a=1;b=2', '(\\w)=(\\d)', 2)", "ARRAY['1', '2']"),
        spark=_spark_groups("Groups.all", 1),
        question=strict(_extracted_all),
        constants=(Constant("regex", 1, group=1),),
    ),
    scalar(
        "REGEXP_REPLACE",
        "text text text",
        VARCHAR,
        "the text with every match of a Java regular expression replaced; `$1` is a group",
        ("REGEXP_REPLACE('a1b22', '[0-9]+', '#')", "'a#b#'"),
        spark=OfCall(_spark_replace),
        question=strict(_replaced),
        constants=(Constant("regex", 1, replacement=2),),
    ),
    scalar(
        "REGEXP_COUNT",
        "text text",
        INTEGER,
        "number of matches",
        ("REGEXP_COUNT('a1b22', '[0-9]+')", "2"),
        spark="regexp_count",
        question=strict(lambda text, pattern: sum(1 for _ in compiled(pattern).finditer(text))),
        constants=(Constant("regex", 1),),
    ),
    scalar(
        "REGEXP_INSTR",
        "text text",
        INTEGER,
        "place of the first match, counted from 1; 0 without a match",
        ("REGEXP_INSTR('ab12', '[0-9]')", "3"),
        spark="regexp_instr",
        question=strict(_first_place),
        constants=(Constant("regex", 1),),
    ),
    scalar(
        "REGEXP_SUBSTR",
        "text text",
        VARCHAR,
        "the first match; NULL without a match",
        ("REGEXP_SUBSTR('ab12', '[0-9]+')", "'12'"),
        nulls="always",
        spark=_spark_groups("Groups.first", 0),
        question=strict(_first_match),
        constants=(Constant("regex", 1),),
    ),
)
