"""Functions that make texts from other texts, Flink SQL's names and meanings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.datatypes import VARCHAR
from ds_dagster.functions.constants import Constant
from ds_dagster.functions.function import RowFunction, scalar
from ds_dagster.functions.question import Call, Computed, Native, nullable, strict
from ds_dagster.functions.spark import Functions, OfCall, of_places

if TYPE_CHECKING:
    from pyspark.sql import Column

# --- Spark ------------------------------------------------------------------------------------------------------------

MOST_CHARACTERS = 2**24
"""Most characters of a text whose length is an argument: a longer one could exhaust the engine's memory."""
TOO_LONG = f"a text of more than {MOST_CHARACTERS} characters"
TOO_WIDE = r"%[^%a-zA-Z]*[1-9][0-9]{7}"
"""A directive of a format with a width or precision of eight digits."""
WORDS_AND_OTHERS = r"[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]+"


def _spark_translate(f: Functions, text: Column, *characters: Column) -> Any:
    """NULL for the characters is an empty text."""
    return f.call_function("translate", text, *[f.coalesce(character, f.lit("")) for character in characters])


def _spark_overlay(f: Functions, text: Column, other: Column, start: Column, *length: Column) -> Any:
    """Unchanged for a position outside of the text; a length below 0 is 0."""
    widths = [f.least(f.greatest(width, f.lit(0)), f.length(text)) for width in length]
    placed = f.call_function("overlay", text, other, start, *widths)
    result = f.when((start > 0) & (start <= f.length(text)), placed).otherwise(text)
    for argument in (other, start, *length):
        result = f.when(argument.isNotNull(), result)
    return result


def _spark_padded(name: str) -> Callable[..., Any]:
    """NULL for a length below 0, and for an empty ``fill``."""

    def build(f: Functions, text: Column, length: Column, fill: Column) -> Any:
        padded = f.call_function(name, text, f.least(length, f.lit(MOST_CHARACTERS)), fill)
        return f.when(text.isNotNull() & (length >= 0) & (fill != ""), _spark_short(f, length, padded))

    return build


def _spark_repeated(f: Functions, text: Column, count: Column) -> Any:
    times = f.when(count > 0, count).when(count.isNotNull(), f.lit(0))
    length = f.length(text) * times.cast("bigint")
    return _spark_short(f, length, f.repeat(text, f.when(length <= MOST_CHARACTERS, times).otherwise(0)))


def _spark_short(f: Functions, length: Column, text: Column) -> Any:
    """A text; the row fails if it is longer than :data:`MOST_CHARACTERS`. Spark also computes constants in a branch
    that is not taken, so the length in ``text`` itself must be limited."""
    return f.when(length <= MOST_CHARACTERS, text).when(length.isNotNull(), f.raise_error(f.lit(TOO_LONG)))


def _spark_printed(f: Functions, form: Column, *values: Column) -> Any:
    is_wide = f.rlike(form, f.lit(TOO_WIDE))
    printed = f.call_function("printf", f.when(is_wide, "").otherwise(form), *values)
    return f.when(is_wide, f.raise_error(f.lit(TOO_LONG))).otherwise(printed)


def _spark_case(method: str) -> OfCall:
    """Upper or lower case as in Spark, without the two seconds in which Spark loads the class of its own functions."""
    return OfCall(lambda _, call: call.java.scalar(f"LetterCase.{method}", call.columns[0].cast("string")))


def _spark_initcap(f: Functions, text: Column) -> Any:
    """Words of letters and digits; in Spark only blanks end a word."""
    pieces = f.regexp_extract_all(text, f.lit(WORDS_AND_OTHERS), f.lit(0))
    return f.array_join(f.transform(pieces, f.initcap), "")


# --- questions --------------------------------------------------------------------------------------------------------


def _concatenation(call: Call) -> exp.Expression:
    """``||`` gives NULL when a part is NULL."""
    joined = call.arguments[0]
    for part in call.arguments[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return exp.Paren(this=joined)


def _joined(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else separator.join(text for text in texts if text is not None)


def _initial_capitals(text: str) -> str:
    """Words are letters and digits, as in Flink."""
    return re.sub(r"[^\W_]+", lambda word: word.group(0)[0].upper() + word.group(0)[1:].lower(), text)


def _padded(text: str, width: int, fill: str, *, left: bool) -> str | None:
    if width < 0 or not fill:
        return None
    _check_length(width)
    if len(text) >= width:
        return text[:width]
    missing = (fill * width)[: width - len(text)]
    return missing + text if left else text + missing


def _repeated(text: str, count: int) -> str:
    _check_length(len(text) * count)
    return text * count


def _check_length(length: int) -> None:
    if length > MOST_CHARACTERS:
        raise ValueError(TOO_LONG)


def _overlaid(text: str, other: str, start: int, length: int | None = None) -> str:
    if not 0 < start <= len(text):
        return text
    width = len(other) if length is None else max(length, 0)
    return text[: start - 1] + other + text[start - 1 + width :]


def _translated(text: str | None, old: str | None, new: str | None) -> str | None:
    """NULL for the characters is an empty text."""
    if text is None:
        return None
    old, new = old or "", new or ""
    table: dict[int, str | None] = {}
    for position, letter in enumerate(old):
        table.setdefault(ord(letter), new[position] if position < len(new) else None)
    return text.translate(table)


def _chosen(position: int | None, *texts: str | None) -> str | None:
    return texts[position - 1] if position is not None and 1 <= position <= len(texts) else None


def _printed(call: Call) -> Callable[..., Any]:
    from ds_dagster.functions.values import formats

    types = call.types[1:]
    return lambda form, *values: None if form is None else formats.formatted(form, values, types)


# --- records ----------------------------------------------------------------------------------------------------------

TEXT_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "CONCAT",
        "text+",
        VARCHAR,
        "texts joined; NULL if any argument is NULL (also `||`)",
        ("CONCAT('a', 'b')", "'ab'"),
        ("CONCAT('a', NULL)", "NULL"),
        spark="concat",
        question=Native(_concatenation),
    ),
    scalar(
        "CONCAT_WS",
        "text text+",
        VARCHAR,
        "texts joined with the first argument between them; texts that are NULL are left out",
        ("CONCAT_WS('-', 'a', NULL, 'b')", "'a-b'"),
        nulls="always",
        spark="concat_ws",
        question=nullable(_joined),
    ),
    scalar(
        "UPPER",
        "text",
        VARCHAR,
        "upper case",
        ("UPPER('Ab')", "'AB'"),
        aliases=("UCASE",),
        spark=_spark_case("upper"),
        question=strict(str.upper),
    ),
    scalar(
        "LOWER",
        "text",
        VARCHAR,
        "lower case",
        ("LOWER('Ab')", "'ab'"),
        aliases=("LCASE",),
        spark=_spark_case("lower"),
        question=strict(str.lower),
    ),
    scalar(
        "INITCAP",
        "text",
        VARCHAR,
        "words (letters and digits) with a capital first letter and small letters after it",
        ("INITCAP('hELLO big-world')", "'Hello Big-World'"),
        spark=_spark_initcap,
        question=strict(_initial_capitals),
    ),
    scalar(
        "LPAD",
        "text integer text",
        VARCHAR,
        "the text filled on the left with the third argument, or cut, to that many characters; NULL for a number below "
        "0 or an empty third argument",
        ("LPAD('7', 3, '0')", "'007'"),
        ("LPAD('12345', 3, '0')", "'123'"),
        nulls="always",
        spark=of_places(_spark_padded("lpad")),
        question=strict(lambda text, width, fill: _padded(text, width, fill, left=True)),
    ),
    scalar(
        "RPAD",
        "text integer text",
        VARCHAR,
        "LPAD on the right",
        ("RPAD('7', 3, '-')", "'7--'"),
        nulls="always",
        spark=of_places(_spark_padded("rpad")),
        question=strict(lambda text, width, fill: _padded(text, width, fill, left=False)),
    ),
    scalar(
        "OVERLAY",
        "text text integer integer?",
        VARCHAR,
        "the first text with the second in place of that many characters (default: its own length) from a position "
        "counted from 1; unchanged for a position outside of the first; also `OVERLAY(a PLACING b FROM p FOR n)`",
        ("OVERLAY('xxxxxtest' PLACING 'yyyy' FROM 6)", "'xxxxxyyyy'"),
        ("OVERLAY('xxxxxtest', 'yyyy', 6, 2)", "'xxxxxyyyyst'"),
        spark=of_places(_spark_overlay),
        question=strict(_overlaid),
    ),
    scalar(
        "REPLACE",
        "text text text",
        VARCHAR,
        "the first text with every occurrence of the second replaced by the third",
        ("REPLACE('a-b-c', '-', '/')", "'a/b/c'"),
        spark="replace",
        question=strict(lambda text, old, new: text.replace(old, new) if old else text),
    ),
    scalar(
        "TRANSLATE",
        "text text text",
        VARCHAR,
        "the first text with every character of the second replaced by the character at its place in the third, or "
        "removed if there is none",
        ("TRANSLATE('2024-01', '-0', '/')", "'224/1'"),
        spark=_spark_translate,
        question=nullable(_translated),
    ),
    scalar(
        "REPEAT",
        "text integer",
        VARCHAR,
        "the text that many times; the row fails if the result would be longer than 16,777,216 characters, also with "
        "LPAD",
        ("REPEAT('ab', 3)", "'ababab'"),
        spark=of_places(_spark_repeated),
        question=strict(_repeated),
    ),
    scalar(
        "REVERSE",
        "text",
        VARCHAR,
        "the characters in reverse order",
        ("REVERSE('abc')", "'cba'"),
        spark="reverse",
        question=strict(lambda text: text[::-1]),
    ),
    scalar(
        "ELT",
        "integer text+",
        VARCHAR,
        "the text at a position counted from 1; NULL outside",
        ("ELT(2, 'a', 'b')", "'b'"),
        ("ELT(3, 'a', 'b')", "NULL"),
        nulls="always",
        spark=of_places(lambda f, position, *texts: f.get(f.array(*texts), f.when(position > 0, position - 1))),
        question=nullable(_chosen),
    ),
    scalar(
        "PRINTF",
        "text printable+",
        VARCHAR,
        "Java's format: %s, %d, %x, %o, %f, %e, %g, %b, %c; NULL is shown as `null`",
        ("PRINTF('%s has %05d', 'x', 42)", "'x has 00042'"),
        ("PRINTF('%,.2f', CAST(1234.567 AS DOUBLE))", "'1,234.57'"),
        spark=_spark_printed,
        question=Computed(_printed, takes_nulls=True),
        constants=(Constant("format", 0),),
    ),
)
