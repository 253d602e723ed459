"""A function of the dialect: its signatures, the type of its result, one line of meaning.

A signature is written as words, one per argument (:data:`FAMILIES`); a trailing ``?`` makes an argument optional, a
trailing ``+`` repeats it, a trailing ``*`` repeats the last two. Arguments of words that begin with ``same`` widen to
one common type, ``element`` is the type of the elements of the first argument, an ARRAY; the binder inserts the casts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ds_dagster.datatypes import (
    ArrayType,
    DataType,
    MapType,
    Scalar,
    is_comparable,
    is_hashable,
    is_integer,
    is_numeric,
    is_orderable,
    is_primitive,
    is_temporal,
    is_text,
)
from ds_dagster.functions.constants import Constant
from ds_dagster.functions.question import Meaning
from ds_dagster.functions.spark import SparkMeaning

FunctionKind = Literal["scalar", "aggregate", "metadata", "grouping", "window"]
Nulls = Literal["any", "all", "never", "always"]
ResultRule = Callable[[Sequence[DataType]], DataType]


@dataclass(frozen=True, slots=True)
class DigitsRule:
    """A rule for a result's type that depends on literals: (types of the arguments, per argument its value if it is a
    literal whole number, else None) → type."""

    rule: Callable[[Sequence[DataType], Sequence[int | None]], DataType]


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function: argument words and the result's type (fixed, or a rule over the arguments' types)."""

    words: tuple[str, ...]
    result: DataType | ResultRule | DigitsRule

    @property
    def least(self) -> int:
        """Fewest arguments."""
        return sum(1 for word in self.words if not word.endswith("?"))

    @property
    def most(self) -> int | None:
        """Most arguments, None without a limit."""
        return None if self.words and self.words[-1].endswith(("+", "*")) else len(self.words)

    def word(self, position: int) -> str:
        """The word of the argument at a position (from 0), without its mark."""
        last = len(self.words) - 1
        if self.words[-1].endswith("*") and position > last:
            position = last - (position - last) % 2
        return self.words[min(position, last)].rstrip("?+*")

    def accepts_count(self, count: int) -> bool:
        """Whether that many arguments may be given."""
        in_pairs = bool(self.words) and self.words[-1].endswith("*")
        if in_pairs and (count - len(self.words)) % 2:
            return False
        return self.least <= count and (self.most is None or count <= self.most)

    def type_of(self, types: Sequence[DataType], numbers: Sequence[int | None] | None = None) -> DataType:
        """Result type for these argument types; ``numbers``: see :class:`DigitsRule`."""
        if isinstance(self.result, DigitsRule):
            return self.result.rule(types, numbers or [None] * len(types))
        return self.result(types) if callable(self.result) else self.result

    def __str__(self) -> str:
        return "(" + ", ".join(self.words) + ")"


@dataclass(frozen=True, slots=True)
class Example:
    """A call and its value, both in the dialect; the tests evaluate every example."""

    call: str
    gives: str


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes:
        name: key of the table; aliases are turned into it by the binder.
        signatures: tried in order.
        meaning: one line for the documentation.
        kind: a scalar, an aggregate, metadata of a record, GROUPING (the set of GROUP BY a row belongs to), a function
            of other rows with OVER.
        nulls: when the result may be NULL: if ``any`` argument may be, if ``all`` arguments may be, ``never``,
            ``always``.
        aliases: other spellings.
        deterministic: the same input gives the same output in a replayed batch.
        examples: shown and tested.
        constants: checks of arguments that are written as literals.
    """

    name: str
    signatures: tuple[Signature, ...]
    meaning: str
    kind: FunctionKind = "scalar"
    nulls: Nulls = "any"
    aliases: tuple[str, ...] = ()
    deterministic: bool = True
    examples: tuple[Example, ...] = ()
    constants: tuple[Constant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFunction(Function):
    """A function of one row.

    Attributes:
        spark: meaning on Spark.
        question: meaning in a question, which DuckDB answers.
        of_batch: without arguments it has one value per batch, not per row: the current time.
    """

    spark: SparkMeaning
    question: Meaning
    of_batch: bool = False


def signature(words: str, result: DataType | ResultRule | DigitsRule) -> Signature:
    """A signature; ``words``: separated by blanks."""
    return Signature(tuple(words.split()), result)


def scalar(
    name: str,
    words: str | tuple[str, ...],
    result: DataType | ResultRule | DigitsRule,
    meaning: str,
    *examples: tuple[str, str],
    spark: SparkMeaning,
    question: Meaning,
    nulls: Nulls = "any",
    aliases: tuple[str, ...] = (),
    deterministic: bool = True,
    constants: tuple[Constant, ...] = (),
    of_batch: bool = False,
) -> RowFunction:
    """A function of one row.

    Args:
        name: upper case.
        words: of its arguments; several if it has several signatures.
        result: type of the result.
        meaning: one line for the documentation.
        examples: a call and its value, both in the dialect.
        spark, question, nulls, aliases, deterministic, constants, of_batch: see :class:`RowFunction`.
    """
    forms = (words,) if isinstance(words, str) else words
    return RowFunction(
        name,
        tuple(signature(form, result) for form in forms),
        meaning,
        nulls=nulls,
        aliases=aliases,
        deterministic=deterministic,
        examples=tuple(Example(call, gives) for call, gives in examples),
        constants=constants,
        spark=spark,
        question=question,
        of_batch=of_batch,
    )


def first(types: Sequence[DataType]) -> DataType:
    """The type of the first argument."""
    return types[0]


def last(types: Sequence[DataType]) -> DataType:
    """The type of the last argument."""
    return types[-1]


def element(types: Sequence[DataType]) -> DataType:
    """The type of the elements of the first argument, an ARRAY."""
    assert isinstance(types[0], ArrayType)
    return types[0].element


def _is(kind: type[ArrayType] | type[MapType]) -> Callable[[DataType], bool]:
    return lambda type_: isinstance(type_, kind)


def _array_of(element: Callable[[DataType], bool]) -> Callable[[DataType], bool]:
    return lambda type_: isinstance(type_, ArrayType) and element(type_.element)


FAMILIES: Mapping[str, Callable[[DataType], bool]] = MappingProxyType(
    {
        "any": lambda _: True,
        "same": lambda _: True,
        "same_number": is_numeric,
        "same_comparable": is_comparable,
        "same_array": _is(ArrayType),
        "same_comparable_array": _array_of(is_comparable),
        "same_map": _is(MapType),
        "text": is_text,
        "integer": is_integer,
        "number": is_numeric,
        "boolean": lambda type_: type_ == Scalar("BOOLEAN"),
        "printable": lambda type_: is_text(type_) or is_numeric(type_) or type_ == Scalar("BOOLEAN"),
        "bytes": lambda type_: isinstance(type_, Scalar) and type_.name == "VARBINARY",
        "timestamp": is_temporal,
        "temporal": lambda type_: is_temporal(type_) or type_ == Scalar("DATE"),
        "collection": lambda type_: isinstance(type_, ArrayType | MapType),
        "array": _is(ArrayType),
        "comparable_array": _array_of(is_comparable),
        "scalar_array": _array_of(is_primitive),
        "map": _is(MapType),
        "element": lambda _: True,
        "comparable": is_comparable,
        "hashable": is_hashable,
        "orderable": is_orderable,
    }
)
"""Argument word → which types it accepts."""
