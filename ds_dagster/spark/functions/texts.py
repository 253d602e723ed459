"""How Spark computes the functions of ``functions/texts.py``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as sf

from ds_dagster.spark.functions.calls import Arguments, Scalar, named, plain

DECIMAL_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"

WORDS_AND_OTHERS = r"[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]+"
LONE_DOLLAR = r"\\|\$(?![0-9{])"
"""In a replacement: what stands for itself and has to be told so to Java."""


def _literally(arguments: Arguments, position: int) -> Column:
    """A separator as the regular expression that matches just it."""
    written = arguments.literal(position)
    if written is not None:
        return sf.lit(re.escape(written))
    return sf.concat(sf.lit("\\Q"), arguments.columns[position], sf.lit("\\E"))


def _split(arguments: Arguments) -> Column:
    text, separator = arguments.columns
    characters = sf.regexp_extract_all(text, sf.lit("(?s)."), sf.lit(0))
    parts = sf.split(text, _literally(arguments, 1), -1)
    return sf.when(separator == "", characters).otherwise(parts)


def _split_index(arguments: Arguments) -> Column:
    text, _, position = arguments.columns
    return sf.get(sf.split(text, _literally(arguments, 1), -1), position)


def _regexp_extract(arguments: Arguments) -> Column:
    text, pattern, *group = arguments.columns
    found = sf.call_function("regexp_extract", text, pattern, group[0] if group else sf.lit(0))
    return sf.when(sf.rlike(text, pattern), found)


def _regexp_replace(arguments: Arguments) -> Column:
    """``$1`` is a group; every other ``$``, and a backslash, is itself."""
    text, pattern, replacement = arguments.columns
    written = arguments.literal(2)
    if written is not None:
        replacement = sf.lit(re.sub(LONE_DOLLAR, r"\\\g<0>", written))
    else:
        replacement = sf.regexp_replace(replacement, sf.lit(LONE_DOLLAR), sf.lit("\\\\$0"))
    return sf.call_function("regexp_replace", text, pattern, replacement)


def _translate(arguments: Arguments) -> Column:
    """NULL for the characters means none of them."""
    text, *characters = arguments.columns
    return sf.call_function("translate", text, *[sf.coalesce(given, sf.lit("")) for given in characters])


def _all_of(pattern: str) -> Scalar:
    """The whole text matches; FALSE for NULL."""
    return lambda arguments: sf.coalesce(sf.rlike(arguments.columns[0], sf.lit(pattern)), sf.lit(False))


def _padded(name: str) -> Scalar:
    """NULL for a length below zero and without anything to fill with."""

    def made(arguments: Arguments) -> Column:
        text, length, fill = arguments.columns
        return sf.when((length >= 0) & (fill != ""), sf.call_function(name, text, length, fill))

    return made


def _initcap(arguments: Arguments) -> Column:
    """Spark takes only blanks for the end of a word."""
    pieces = sf.regexp_extract_all(arguments.columns[0], sf.lit(WORDS_AND_OTHERS), sf.lit(0))
    return sf.array_join(sf.transform(pieces, sf.initcap), "")


def _from_base64(arguments: Arguments) -> Column:
    return sf.try_to_binary(arguments.columns[0], sf.lit("base64")).cast("string")


def _unhex(arguments: Arguments) -> Column:
    return sf.try_to_binary(arguments.columns[0], sf.lit("hex"))


def _elt(arguments: Arguments) -> Column:
    position, *texts = arguments.columns
    return sf.get(sf.array(*texts), position - 1)


def _sha(bits: int) -> Scalar:
    return lambda arguments: sf.sha2(arguments.columns[0].cast("binary"), bits)


def _sha2(arguments: Arguments) -> Column:
    text, bits = arguments.columns
    choices = sf.lit(None).cast("string")
    for number in (224, 256, 384, 512):
        choices = sf.when(bits == number, sf.sha2(text.cast("binary"), number)).otherwise(choices)
    return choices


TEXT_FUNCTIONS: Mapping[str, Scalar] = MappingProxyType(
    {
        "CONCAT": plain(sf.concat),
        "CONCAT_WS": named("concat_ws"),
        "UPPER": plain(sf.upper),
        "LOWER": plain(sf.lower),
        "INITCAP": _initcap,
        "TRIM": plain(sf.trim),
        "LTRIM": plain(sf.ltrim),
        "RTRIM": plain(sf.rtrim),
        "LPAD": _padded("lpad"),
        "RPAD": _padded("rpad"),
        "LEFT": named("left"),
        "RIGHT": named("right"),
        "SUBSTRING": named("substring"),
        "OVERLAY": plain(sf.overlay),
        "CHAR_LENGTH": plain(sf.char_length),
        "OCTET_LENGTH": plain(sf.octet_length),
        "REPLACE": plain(sf.replace),
        "TRANSLATE": _translate,
        "REPEAT": named("repeat"),
        "REVERSE": plain(sf.reverse),
        "POSITION": plain(sf.position),
        "LOCATE": named("locate"),
        "INSTR": named("instr"),
        "STARTSWITH": plain(sf.startswith),
        "ENDSWITH": plain(sf.endswith),
        "SPLIT": _split,
        "SPLIT_INDEX": _split_index,
        "REGEXP": plain(sf.rlike),
        "REGEXP_EXTRACT": _regexp_extract,
        "REGEXP_EXTRACT_ALL": named("regexp_extract_all"),
        "REGEXP_REPLACE": _regexp_replace,
        "REGEXP_COUNT": plain(sf.regexp_count),
        "REGEXP_INSTR": named("regexp_instr"),
        "REGEXP_SUBSTR": plain(sf.regexp_substr),
        "PARSE_URL": named("try_parse_url"),
        "URL_ENCODE": plain(sf.url_encode),
        "URL_DECODE": named("try_url_decode"),
        "TO_BASE64": lambda a: sf.base64(a.columns[0].cast("binary")),
        "FROM_BASE64": _from_base64,
        "ENCODE": named("encode"),
        "DECODE": named("decode"),
        "HEX": plain(sf.hex),
        "UNHEX": _unhex,
        "ASCII": plain(sf.ascii),
        "CHR": plain(sf.chr),
        "ELT": _elt,
        "PRINTF": named("printf"),
        "IS_ALPHA": _all_of(r"^\p{L}+$"),
        "IS_DIGIT": _all_of(r"^\p{Nd}+$"),
        "IS_DECIMAL": _all_of(DECIMAL_NUMBER),
        "UUID": plain(sf.uuid),
        "MD5": lambda a: sf.md5(a.columns[0].cast("binary")),
        "SHA1": lambda a: sf.sha1(a.columns[0].cast("binary")),
        "SHA224": _sha(224),
        "SHA256": _sha(256),
        "SHA384": _sha(384),
        "SHA512": _sha(512),
        "SHA2": _sha2,
        "CRC32": lambda a: sf.crc32(a.columns[0].cast("binary")),
    }
)
"""Function → Spark."""
