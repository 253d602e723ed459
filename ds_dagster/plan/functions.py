"""The functions of the dialect: signatures, result types, one line of meaning each. Importable without Spark.

``spark/functions.py`` has the same keys. A signature is written as words, one per argument: ``text``, ``integer``,
``number``, ``boolean``, ``temporal``, ``collection``, ``orderable``, ``any``; a trailing ``?`` makes an argument
optional, a trailing ``+`` repeats it; ``same`` and ``same+`` are arguments that widen to one common type (casts are
inserted by the binder).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ds_dagster.datatypes import (
    BIGINT,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructType,
    decimal,
    is_integer,
    is_numeric,
    is_primitive,
    is_temporal,
    is_text,
)

FunctionKind = Literal["scalar", "aggregate", "metadata"]
Nulls = Literal["any", "all", "never", "always"]
ResultRule = Callable[[Sequence[DataType]], DataType]


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function: argument words and the result's type (fixed, or a rule over the arguments' types)."""

    words: tuple[str, ...]
    result: DataType | ResultRule

    @property
    def least(self) -> int:
        """Fewest arguments."""
        return sum(1 for word in self.words if not word.endswith("?"))

    @property
    def most(self) -> int | None:
        """Most arguments, None without a limit."""
        return None if self.words and self.words[-1].endswith("+") else len(self.words)

    def word(self, position: int) -> str:
        """The word of the argument at a position (from 0), without its mark."""
        return self.words[min(position, len(self.words) - 1)].rstrip("?+")

    def accepts_count(self, count: int) -> bool:
        """Whether that many arguments may be given."""
        return self.least <= count and (self.most is None or count <= self.most)

    def type_of(self, types: Sequence[DataType]) -> DataType:
        """Result type for these argument types."""
        return self.result(types) if callable(self.result) else self.result

    def __str__(self) -> str:
        return "(" + ", ".join(self.words) + ")"


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes:
        name: key of the table; aliases are turned into it by the binder.
        signatures: tried in order.
        meaning: one line, what Spark must do.
        kind: scalar, aggregate, or metadata of a record.
        nulls: when the result may be NULL: ``any`` argument may, ``all`` arguments may, ``never``, ``always``.
        aliases: other spellings.
        deterministic: the same input gives the same output in a replayed batch.
        not_yet: why it is refused for now; empty when built.
    """

    name: str
    signatures: tuple[Signature, ...]
    meaning: str
    kind: FunctionKind = "scalar"
    nulls: Nulls = "any"
    aliases: tuple[str, ...] = ()
    deterministic: bool = True
    not_yet: str = ""


def _sig(words: str, result: DataType | ResultRule) -> Signature:
    return Signature(tuple(words.split()), result)


def _first(types: Sequence[DataType]) -> DataType:
    return types[0]


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


def _rounded(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if len(types) == 1 and isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(min((type_.precision or 10) - (type_.scale or 0) + 1, 38), 0)
    return type_


def _whole(types: Sequence[DataType]) -> DataType:
    type_ = types[0]
    if isinstance(type_, Scalar) and type_.name == "DECIMAL":
        return decimal(min((type_.precision or 10) - (type_.scale or 0) + 1, 38), 0)
    return type_


def _remainder(types: Sequence[DataType]) -> DataType:
    return types[0]


_SCALARS = (
    Function(
        "COALESCE", (_sig("same+", _first),), "first argument that is not NULL", nulls="all", aliases=("IFNULL", "NVL")
    ),
    Function("NULLIF", (_sig("same same", _first),), "NULL when both are equal, else the first", nulls="always"),
    Function("GREATEST", (_sig("same+", _first),), "largest argument; NULL when any argument is NULL"),
    Function("LEAST", (_sig("same+", _first),), "smallest argument; NULL when any argument is NULL"),
    Function("CONCAT", (_sig("text+", VARCHAR),), "texts joined; NULL when any argument is NULL (also `||`)"),
    Function("UPPER", (_sig("text", VARCHAR),), "upper case", aliases=("UCASE",)),
    Function("LOWER", (_sig("text", VARCHAR),), "lower case", aliases=("LCASE",)),
    Function(
        "TRIM",
        (_sig("text text?", VARCHAR),),
        "without the characters of the second argument (blank) on both ends",
        aliases=("BTRIM",),
    ),
    Function("LTRIM", (_sig("text text?", VARCHAR),), "TRIM at the start only"),
    Function("RTRIM", (_sig("text text?", VARCHAR),), "TRIM at the end only"),
    Function(
        "SUBSTRING",
        (_sig("text integer integer?", VARCHAR),),
        "from a position counted from 1 (negative: from the end), to the end or for a length",
        aliases=("SUBSTR",),
    ),
    Function("CHAR_LENGTH", (_sig("text", INTEGER),), "number of characters", aliases=("CHARACTER_LENGTH", "LENGTH")),
    Function("REPLACE", (_sig("text text text", VARCHAR),), "every occurrence of the second replaced by the third"),
    Function(
        "SPLIT_INDEX",
        (_sig("text text integer", VARCHAR),),
        "part at a position counted from 0 after splitting at a literal separator; NULL outside",
        nulls="always",
    ),
    Function(
        "REGEXP_EXTRACT",
        (_sig("text text integer?", VARCHAR),),
        "group of the first match of a Java regular expression (default group 0, the whole); NULL without a match",
        nulls="always",
    ),
    Function("ABS", (_sig("number", _first),), "absolute value"),
    Function("ROUND", (_sig("number integer?", _rounded),), "half up, to that many decimals (0)"),
    Function("FLOOR", (_sig("number", _whole),), "largest whole number not above"),
    Function("CEIL", (_sig("number", _whole),), "smallest whole number not below", aliases=("CEILING",)),
    Function("MOD", (_sig("same_number same_number", _remainder),), "remainder with the sign of the first (also `%`)"),
    Function(
        "TO_TIMESTAMP",
        (_sig("text text?", TIMESTAMP),),
        "text to TIMESTAMP by a Java pattern (yyyy-MM-dd HH:mm:ss); NULL when it does not match",
        nulls="always",
    ),
    Function(
        "TO_TIMESTAMP_LTZ",
        (_sig("number integer", TIMESTAMP_LTZ), _sig("number", TIMESTAMP_LTZ), _sig("text text?", TIMESTAMP_LTZ)),
        "epoch number with precision 0 (seconds) or 3 (milliseconds, default), or text by a Java pattern in UTC",
        nulls="always",
    ),
    Function("FROM_UNIXTIME", (_sig("integer text?", VARCHAR),), "epoch seconds as text by a Java pattern in UTC"),
    Function(
        "UNIX_TIMESTAMP",
        (_sig("text? text?", BIGINT),),
        "epoch seconds of a text by a Java pattern in UTC; without arguments: now",
        nulls="always",
    ),
    Function(
        "DATE_FORMAT",
        (_sig("temporal text", VARCHAR), _sig("text text", VARCHAR)),
        "a timestamp (or its text) as text by a Java pattern in UTC",
    ),
    Function(
        "CURRENT_TIMESTAMP",
        (_sig("", TIMESTAMP_LTZ),),
        "time of the batch",
        nulls="never",
        deterministic=False,
        aliases=("NOW", "LOCALTIMESTAMP"),
    ),
    Function(
        "JSON_VALUE",
        (_sig("text text", VARCHAR),),
        "scalar at a JSON path as text; NULL when absent or not a scalar",
        nulls="always",
    ),
    Function("CARDINALITY", (_sig("collection", INTEGER),), "number of elements of an ARRAY or entries of a MAP"),
    Function("UUID", (_sig("", VARCHAR),), "a new random identifier per row", nulls="never", deterministic=False),
    Function(
        "POSITION",
        (_sig("text text", INTEGER),),
        "place of the first text inside the second, counted from 1; 0 when absent",
    ),
    Function(
        "EXTRACT",
        (_sig("text temporal", BIGINT),),
        "part of a timestamp in UTC: 'YEAR', 'MONTH', 'DAY', 'HOUR', 'MINUTE', 'SECOND' ; the part is a literal",
    ),
    Function("MD5", (_sig("text", VARCHAR),), "MD5 of the UTF-8 bytes, 32 hexadecimal digits in lower case"),
    Function("SHA256", (_sig("text", VARCHAR),), "SHA-256 of the UTF-8 bytes, 64 hexadecimal digits in lower case"),
)

_METADATA = (
    Function(
        "ROWTIME",
        (_sig("", BIGINT),),
        "the record's own timestamp, epoch milliseconds",
        kind="metadata",
        nulls="never",
        aliases=("ROW_TIMESTAMP",),
    ),
    Function(
        "ROWKEY",
        (_sig("", VARCHAR),),
        "the record's key as text",
        kind="metadata",
        nulls="always",
        aliases=("ROW_KEY",),
    ),
    Function(
        "ROWMETADATA",
        (_sig("", StructType(())),),
        "where the record stands: Kafka topic, partition, offset, timestamp_type, headers; Kinesis stream, "
        "partition_key, shard_id, sequence_number",
        kind="metadata",
        nulls="never",
        aliases=("ROW_METADATA",),
    ),
)

_AGGREGATES = (
    Function("COUNT", (_sig("any?", BIGINT),), "rows, or values that are not NULL", kind="aggregate", nulls="never"),
    Function(
        "SUM",
        (_sig("number", _sum),),
        "whole numbers to BIGINT, DECIMAL(p,s) to DECIMAL(38,s), floats to DOUBLE",
        kind="aggregate",
    ),
    Function("AVG", (_sig("number", _average),), "DOUBLE; DECIMAL(p,s) to DECIMAL(38,max(s,6))", kind="aggregate"),
    Function("MIN", (_sig("orderable", _first),), "smallest value that is not NULL", kind="aggregate"),
    Function("MAX", (_sig("orderable", _first),), "largest value that is not NULL", kind="aggregate"),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({f.name: f for f in (*_SCALARS, *_METADATA, *_AGGREGATES)})
"""Function name (upper case) → definition."""

ALIASES: Mapping[str, str] = MappingProxyType({alias: f.name for f in FUNCTIONS.values() for alias in f.aliases})
"""Other spelling → key of :data:`FUNCTIONS`."""

KNOWN_LATER: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        (
            "STDDEV",
            "STDDEV_POP",
            "STDDEV_SAMP",
            "VARIANCE",
            "VAR_POP",
            "VAR_SAMP",
            "LISTAGG",
            "COLLECT",
            "ARRAY_AGG",
            "STRING_AGG",
            "FIRST_VALUE",
            "LAST_VALUE",
            "APPROX_COUNT_DISTINCT",
        ),
        "aggregates built today: COUNT, SUM, AVG, MIN, MAX",
    )
    | dict.fromkeys(
        ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "NTILE"),
        "ranking over a stream comes with top-n; filter or aggregate instead",
    )
    | {"MATCH_ROWTIME": "pattern matching is not built; rowtime() gives a record's timestamp"}
)
"""Functions of the dialect that are not built: name → what works today."""


def find_function(name: str) -> Function | None:
    """The function of that spelling in any case, or None."""
    upper = name.upper()
    return FUNCTIONS.get(ALIASES.get(upper, upper))


def _orderable(type_: DataType) -> bool:
    return is_primitive(type_)


FAMILIES: Mapping[str, Callable[[DataType], bool]] = MappingProxyType(
    {
        "any": lambda _: True,
        "same": lambda _: True,
        "same_number": is_numeric,
        "text": is_text,
        "integer": is_integer,
        "number": is_numeric,
        "boolean": lambda type_: type_ == Scalar("BOOLEAN"),
        "temporal": lambda type_: is_temporal(type_) or type_ == Scalar("DATE"),
        "collection": lambda type_: isinstance(type_, ArrayType | MapType),
        "orderable": _orderable,
    }
)
"""Argument word → which types it accepts."""
