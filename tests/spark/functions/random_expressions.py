"""Random expressions of the dialect, nested, over columns of every type; a seed gives the same ones again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from ds_dagster.datatypes import (
    BOOLEAN,
    DATE,
    ArrayType,
    DataType,
    Scalar,
    StructType,
    is_numeric,
    is_temporal,
    is_text,
)
from ds_dagster.functions.function import FAMILIES
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.sql.script import parse_type

COLUMNS: Mapping[str, tuple[str, list[Any]]] = {
    "b": ("BOOLEAN", [True, False, None, True]),
    "v": ("VARCHAR", ["Hello, World ä", "", None, "12.5"]),
    "w": ("VARCHAR", ["2024-02-29 12:34:56.789", "7", "a,b;c", '{"a":{"b":[1,2,"x"]},"c":null}']),
    "v5": ("VARCHAR(5)", ["abcde", "  x ", "-1", None]),
    "ti": ("TINYINT", [127, -128, 0, None]),
    "si": ("SMALLINT", [32767, -7, None, 3]),
    "i": ("INTEGER", [2147483647, -2, 0, 5]),
    "j": ("INTEGER", [1, 3, None, -2147483648]),
    "l": ("BIGINT", [9223372036854775807, -1, 2, None]),
    "k": ("BIGINT", [1709210096789, 0, None, -86400001]),
    "fl": ("FLOAT", [1.5, -0.1, None, "Infinity"]),
    "d": ("DOUBLE", [0.1, -0.0, "NaN", 1e300]),
    "e": ("DOUBLE", [2.5, -3.5, None, 1e-7]),
    "de": ("DECIMAL(10,2)", ["12345678.91", "-0.05", None, "2.50"]),
    "df": ("DECIMAL(38,18)", ["12345678901234567890.123456789012345678", "-1.5", "0", None]),
    "da": ("DATE", ["2024-02-29", "1969-12-31", None, "2023-12-31"]),
    "tm": ("TIME", ["12:34:56", "00:00:00", None, "23:59:59"]),
    "ts": ("TIMESTAMP(3)", ["2024-02-29 12:34:56.789", "1969-12-31 23:59:59.999", None, "2024-12-30 00:00:00"]),
    "t6": ("TIMESTAMP(6)", ["2024-02-29 12:34:56.789123", "1969-12-31 23:59:59.999999", None, "2024-12-30 00:00:00.5"]),
    "tz": ("TIMESTAMP_LTZ(3)", ["2024-02-29T12:34:56.789Z", "1969-12-31T23:59:59.999Z", None, "2024-12-30T00:00:00Z"]),
    "ai": ("ARRAY<INTEGER>", [[3, 1, None, 1], [], None, [7]]),
    "av": ("ARRAY<VARCHAR>", [["b", "a", None, "ä"], [], None, ["x,y"]]),
    "ad": ("ARRAY<DOUBLE>", [[1.5, "NaN", -0.0], [0.0], None, [None]]),
    "aa": ("ARRAY<ARRAY<INTEGER>>", [[[1, 2], None], [[]], None, [[3], [1]]]),
    "mv": ("MAP<VARCHAR, INTEGER>", [{"a": 1, "b": None}, {}, None, {"Hello": 3}]),
    "st": ("STRUCT<f INTEGER, g VARCHAR>", [{"f": 1, "g": "x"}, {"f": None, "g": ""}, None, {"f": 7, "g": None}]),
}
"""Name → type and the values of four rows, as JSON has them."""
TYPES: Mapping[str, DataType] = {name: parse_type(type_) for name, (type_, _) in COLUMNS.items()}
LITERALS = (
    "NULL", "TRUE", "FALSE", "0", "1", "-1", "2", "3", "10", "2147483648", "1.5", "0.10", "-2.75", "1e2", "''", "'a'",
    "'l'", "' '", "','", "'Hello'", "'%l_o%'", "'(l+)'", "'[a-z]+'", "'$.a.b'", "'$.a.b[0]'", "'yyyy-MM-dd'", "'UTF-8'",
    "'Europe/Berlin'", "'0'", "'12.5'", "'%s-%d'", "DATE '2024-01-31'", "TIME '10:11:12'",
    "TIMESTAMP '2024-03-31 01:30:00.123'", "ARRAY[1, NULL, 3]", "ARRAY['a', 'b']", "1.0E-10", "'2024-01-31'",
)  # fmt: skip
CASTS = (
    "BOOLEAN", "VARCHAR", "VARCHAR(3)", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)",
    "DECIMAL(38,10)", "DATE", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)",
    "ARRAY<VARCHAR>", "MAP<VARCHAR, BIGINT>", "STRUCT<f BIGINT, g VARCHAR>",
)  # fmt: skip
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
CALLED = [function for function in FUNCTIONS.values() if function.kind == "scalar" and function.deterministic]
LONGEST = 160
MOST_PARTS = 700
Fits = Callable[[DataType | None], bool]


class Expressions:
    """Texts of expressions; those that :meth:`learn` is called with become parts of later ones."""

    def __init__(self, seed: int | random.Random, columns: Mapping[str, DataType] = TYPES) -> None:
        self.random = seed if isinstance(seed, random.Random) else random.Random(seed)
        self.first: list[tuple[str, DataType | None]] = [*columns.items()]
        self.parts = list(self.first)

    def learn(self, text: str, type_: DataType | None) -> None:
        """A text of that type may be a part of others."""
        self.parts = list(self.first) if len(self.parts) > MOST_PARTS else self.parts
        self.parts.append((text, type_))

    def next(self) -> str:
        """An expression, often one of wrong types."""
        while True:
            text = self._call() if self.random.random() < 0.5 else self._form()
            if len(text) < LONGEST:
                return text

    def _part(self, fits: Fits) -> tuple[str, DataType | None]:
        for _ in range(60):
            text, type_ = self.random.choice(self.parts)
            if type_ is not None and fits(type_):
                return text, type_
        return self.random.choice(self.parts)

    def _text(self, fits: Fits = lambda _: True) -> str:
        return self._part(fits)[0]

    def _call(self) -> str:
        function = self.random.choice(CALLED)
        signature = self.random.choice(function.signatures)
        most = signature.least + 2 if signature.most is None else signature.most
        least = max(signature.least, int(getattr(function, "of_batch", False)))
        count = self.random.randint(least, most)
        arguments: list[str] = []
        first: DataType | None = None
        for position in range(count):
            word = signature.word(position)
            if position == 0 and any(constant.kind == "unit" for constant in function.constants):
                arguments.append(self.random.choice(["DAY", "MONTH", "HOUR"]))
                continue
            text, type_ = self._part(_argument(word, first))
            first = type_ if first is None else first
            arguments.append(text)
        return f"{function.name}({', '.join(arguments)})"

    def _form(self) -> str:
        choose, (text, type_) = self.random.choice, self.random.choice(self.parts)
        other = self._text(_alike(type_))
        forms: list[Callable[[], str]] = [
            lambda: f"({text} {choose('+-*/%')} {other})",
            lambda: f"({text} || {other})",
            lambda: f"({text} {choose(COMPARED)} {other})",
            lambda: f"{choose(['CAST', 'TRY_CAST'])}({text} AS {choose(CASTS)})",
            lambda: f"CASE WHEN {self._text(_is(BOOLEAN))} THEN {text} ELSE {other} END",
            lambda: f"COALESCE({text}, {other})",
            lambda: f"({text} {choose(['', 'NOT '])}IN ({other}, {self._text(_alike(type_))}))",
            lambda: f"({text} BETWEEN {other} AND {self._text(_alike(type_))})",
            lambda: f"({text} IS {choose(['', 'NOT '])}NULL)",
            lambda: f"({self._text(_is(BOOLEAN))} {choose(['AND', 'OR'])} {self._text(_is(BOOLEAN))})",
            lambda: f"{self._text(_of(ArrayType))}[{choose(['1', '2', 'i', 'j', 'l'])}]",
            lambda: f"{self._text(_of(StructType))}->{choose('fg')}",
            lambda: (
                f"({self._text(is_text)} {choose(['LIKE', 'NOT LIKE', 'ILIKE', 'SIMILAR TO'])} {self._text(is_text)})"
            ),
            lambda: f"({self._text(_is_time)} {choose('+-')} INTERVAL '{choose(['1', '13', '-2'])}' {choose(UNITS)})",
            lambda: f"EXTRACT({choose([*UNITS, 'DOW', 'DOY', 'EPOCH', 'MILLISECOND'])} FROM {self._text(_is_time)})",
            lambda: f"{choose(['FLOOR', 'CEIL'])}({self._text(_is_time)} TO {choose(UNITS)})",
            lambda: f"ARRAY[{text}, {other}]",
            lambda: f"STRUCT({text} AS f, {self._text()} AS g)",
            lambda: f"MAP[{text}, {self._text()}]",
            lambda: f"-{self._text(is_numeric)}",
        ]
        return choose(forms)()


def _argument(word: str, first: DataType | None) -> Fits:
    if word.startswith("same") and first is not None:
        return _alike(first)
    if word == "element" and isinstance(first, ArrayType):
        return _is(first.element)
    return FAMILIES.get(word, lambda _: True)


def _alike(wanted: DataType | None) -> Fits:
    def fits(type_: DataType | None) -> bool:
        if type_ == wanted or (is_numeric(type_) and is_numeric(wanted)):
            return True
        return isinstance(type_, Scalar) and isinstance(wanted, Scalar) and type_.name == wanted.name

    return fits


def _is(wanted: DataType) -> Fits:
    return lambda type_: type_ == wanted


def _of(kind: type) -> Fits:
    return lambda type_: isinstance(type_, kind)


def _is_time(type_: DataType | None) -> bool:
    return type_ == DATE or (type_ is not None and is_temporal(type_))
