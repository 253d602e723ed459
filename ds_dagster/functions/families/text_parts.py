"""Functions of parts of texts, of positions in them and of kinds of characters; Flink SQL's names and meanings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ds_dagster.datatypes import BOOLEAN, INTEGER, VARCHAR, ArrayType
from ds_dagster.functions.function import RowFunction, scalar
from ds_dagster.functions.question import Computed, nullable, strict
from ds_dagster.functions.spark import Functions, OfCall, SparkCall, SparkMeaning, limited, of_places

if TYPE_CHECKING:
    from pyspark.sql import Column

TEXTS = ArrayType(VARCHAR)

# --- Spark ------------------------------------------------------------------------------------------------------------

DECIMAL_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def _literally(f: Functions, call: SparkCall, position: int) -> Any:
    """A separator as the regular expression that matches only this text."""
    written = call.literal(position)
    if written is not None:
        return f.lit(re.escape(written))
    return f.concat(f.lit("\\Q"), call.columns[position], f.lit("\\E"))


def _spark_split(f: Functions, call: SparkCall) -> Any:
    text, separator = call.columns
    characters = f.regexp_extract_all(text, f.lit("(?s)."), f.lit(0))
    parts = f.split(text, _literally(f, call, 1), -1)
    return f.when(separator == "", characters).otherwise(parts)


def _spark_split_index(f: Functions, call: SparkCall) -> Any:
    text, separator, position = call.columns
    place = limited(f, position)
    part = f.get(f.split(text, _literally(f, call, 1), -1), place)
    return f.when(text != "", f.when(separator == "", f.when(place == 0, text)).otherwise(part))


def _spark_locate(f: Functions, part: Column, text: Column, *start: Column) -> Any:
    """NULL for a start that is NULL; Spark gives 0."""
    place = f.call_function("locate", part, text, *start)
    return f.when(start[0].isNotNull(), place) if start else place


def _spark_substring(f: Functions, text: Column, start: Column, *length: Column) -> Any:
    """NULL for a length below 0, an empty text for a start before the first character."""
    part = f.when(start < -f.length(text), f.lit("")).otherwise(f.call_function("substring", text, start, *length))
    return f.when(length[0] >= 0, part) if length else part


def _spark_all_of(pattern: str) -> SparkMeaning:
    """The whole text matches; FALSE for NULL."""
    return lambda f, text: f.coalesce(f.rlike(text, f.lit(pattern)), f.lit(False))


# --- questions --------------------------------------------------------------------------------------------------------


def _substring(text: str, start: int, length: int | None = None) -> str | None:
    """Part of a text from a position counted from 1; a negative position counts from the end."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if length is not None and length < 0:
        return None
    return text[begin:][:length] if begin >= 0 else ""


def _located(part: str, text: str, start: int = 1) -> int:
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _part(text: str, separator: str, position: int) -> str | None:
    parts = text.split(separator) if separator else [text]
    return parts[position] if text and 0 <= position < len(parts) else None


def _all_of(test: Callable[[str], bool]) -> Computed:
    return nullable(lambda text: text is not None and bool(text) and test(text))


# --- records ----------------------------------------------------------------------------------------------------------

TEXT_PART_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "TRIM",
        "text text?",
        VARCHAR,
        "the text without the characters of the second argument (default: blank) at both ends",
        ("TRIM('  x ')", "'x'"),
        ("TRIM(LEADING '0' FROM '007')", "'7'"),
        aliases=("BTRIM",),
        spark=lambda f, text, *removed: f.trim(text, *removed),
        question=strict(lambda text, removed=" ": text.strip(removed)),
    ),
    scalar(
        "LTRIM",
        "text text?",
        VARCHAR,
        "TRIM at the start only",
        ("LTRIM('  x ')", "'x '"),
        spark=lambda f, text, *removed: f.ltrim(text, *removed),
        question=strict(lambda text, removed=" ": text.lstrip(removed)),
    ),
    scalar(
        "RTRIM",
        "text text?",
        VARCHAR,
        "TRIM at the end only",
        ("RTRIM('  x ')", "'  x'"),
        spark=lambda f, text, *removed: f.rtrim(text, *removed),
        question=strict(lambda text, removed=" ": text.rstrip(removed)),
    ),
    scalar(
        "LEFT",
        "text integer",
        VARCHAR,
        "that many first characters",
        ("LEFT('stream', 3)", "'str'"),
        spark=of_places("left"),
        question=strict(lambda text, count: text[: max(count, 0)]),
    ),
    scalar(
        "RIGHT",
        "text integer",
        VARCHAR,
        "that many last characters",
        ("RIGHT('stream', 3)", "'eam'"),
        spark=of_places("right"),
        question=strict(lambda text, count: text[max(len(text) - count, 0) :] if count > 0 else ""),
    ),
    scalar(
        "SUBSTRING",
        "text integer integer?",
        VARCHAR,
        "part from a position counted from 1 (negative: from the end), to the end or of a length; NULL for a length "
        "below 0",
        ("SUBSTRING('stream', 2, 3)", "'tre'"),
        nulls="always",
        aliases=("SUBSTR",),
        spark=of_places(_spark_substring),
        question=strict(_substring),
    ),
    scalar(
        "SPLIT",
        "text text",
        TEXTS,
        "parts of the text between separators, which are plain texts; an empty separator gives the characters",
        ("SPLIT('a,b,,c', ',')", "ARRAY['a', 'b', '', 'c']"),
        ("SPLIT('abc', '')", "ARRAY['a', 'b', 'c']"),
        spark=OfCall(_spark_split),
        question=strict(_split),
    ),
    scalar(
        "SPLIT_INDEX",
        "text text integer",
        VARCHAR,
        "part at a position counted from 0 after splitting at a separator, a plain text; NULL outside",
        ("SPLIT_INDEX('a,b,c', ',', 1)", "'b'"),
        nulls="always",
        spark=OfCall(_spark_split_index),
        question=strict(_part),
    ),
    scalar(
        "CHAR_LENGTH",
        "text",
        INTEGER,
        "number of characters",
        ("CHAR_LENGTH('grüß')", "4"),
        aliases=("CHARACTER_LENGTH", "LENGTH"),
        spark="char_length",
        question=strict(len),
    ),
    scalar(
        "OCTET_LENGTH",
        "text",
        INTEGER,
        "number of UTF-8 bytes",
        ("OCTET_LENGTH('grüß')", "6"),
        spark="octet_length",
        question=strict(lambda text: len(text.encode())),
    ),
    scalar(
        "POSITION",
        "text text",
        INTEGER,
        "place of the first text inside the second, counted from 1; 0 if absent",
        ("POSITION('b' IN 'abc')", "2"),
        spark="position",
        question=strict(_located),
    ),
    scalar(
        "LOCATE",
        "text text integer?",
        INTEGER,
        "POSITION, searched from a position on; an empty text is at 1",
        ("LOCATE('a', 'banana', 3)", "4"),
        spark=of_places(_spark_locate),
        question=strict(_located),
    ),
    scalar(
        "INSTR",
        "text text",
        INTEGER,
        "POSITION with the text first",
        ("INSTR('abc', 'b')", "2"),
        spark="instr",
        question=strict(lambda text, part: _located(part, text)),
    ),
    scalar(
        "STARTSWITH",
        "text text",
        BOOLEAN,
        "whether the first text begins with the second",
        ("STARTSWITH('abc', 'ab')", "TRUE"),
        spark="startswith",
        question=strict(str.startswith),
    ),
    scalar(
        "ENDSWITH",
        "text text",
        BOOLEAN,
        "whether the first text ends with the second",
        ("ENDSWITH('abc', 'ab')", "FALSE"),
        spark="endswith",
        question=strict(str.endswith),
    ),
    scalar(
        "IS_ALPHA",
        "text",
        BOOLEAN,
        "whether the text has letters only; FALSE for NULL and an empty text",
        ("IS_ALPHA('aß')", "TRUE"),
        ("IS_ALPHA('a1')", "FALSE"),
        nulls="never",
        spark=_spark_all_of(r"^\p{L}+$"),
        question=_all_of(str.isalpha),
    ),
    scalar(
        "IS_DIGIT",
        "text",
        BOOLEAN,
        "whether the text has digits only; FALSE for NULL and an empty text",
        ("IS_DIGIT('12')", "TRUE"),
        ("IS_DIGIT('1.2')", "FALSE"),
        nulls="never",
        spark=_spark_all_of(r"^\p{Nd}+$"),
        question=_all_of(str.isdecimal),
    ),
    scalar(
        "IS_DECIMAL",
        "text",
        BOOLEAN,
        "whether the text is a decimal number; FALSE for NULL and an empty text",
        ("IS_DECIMAL('-1.2')", "TRUE"),
        ("IS_DECIMAL('1.2.3')", "FALSE"),
        nulls="never",
        spark=_spark_all_of(DECIMAL_NUMBER),
        question=_all_of(
            lambda text: re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is not None
        ),
    ),
)
