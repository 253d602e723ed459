"""Random schemas with nested types, their records, and the parts of random SELECTs; a seed gives the same ones again.

Every SELECT that the product accepts may be the sub-select of later ones, with the columns that the product inferred.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ds_dagster.datatypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    Scalar,
    StructField,
    StructType,
    decimal,
    is_numeric,
    is_text,
)
from tests.spark.functions.random_expressions import LITERALS, Expressions

Kind = Literal["stream", "changelog"]
Record = tuple[str, dict[str, Any] | None, dict[str, Any] | None, int]
"""Topic, key, value, epoch milliseconds."""
Fits = Callable[[DataType], bool]
MOMENT = Scalar("TIMESTAMP", precision=3)
SCALARS = (BOOLEAN, VARCHAR, INTEGER, BIGINT, DOUBLE, decimal(10, 2), DATE, MOMENT)
LONGEST = 900
MOST_ROWS = 60
"""SELECTs that later ones may read."""
AGGREGATES = (
    "COUNT(*)", "COUNT({any})", "COUNT(DISTINCT {flat})", "SUM({number})", "SUM(DISTINCT {number})", "AVG({number})",
    "MIN({flat})", "MAX({flat})", "ARRAY_AGG({any})", "BOOL_AND({boolean})", "BOOL_OR({boolean})", "MEDIAN({number})",
    "STDDEV_POP({number})", "VAR_SAMP({number})", "LISTAGG({text})", "MAX_BY({any}, {number})", "ANY_VALUE({flat})",
    "PERCENTILE({number}, 0.5)", "FIRST_VALUE({any})", "LAST_VALUE({any})", "APPROX_COUNT_DISTINCT({flat})",
    "JSON_ARRAYAGG({any})",
)  # fmt: skip
UNORDERED = tuple(text for text in AGGREGATES if text.startswith(("COUNT", "SUM", "AVG", "M", "BOOL", "STD", "VAR")))
UNORDERED = tuple(text for text in UNORDERED if "_BY" not in text)
"""Aggregates whose result does not depend on the order of rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What FROM may read: text, columns, kind; ``waits``: an answer over all rows at once is another."""

    text: str
    columns: Mapping[str, DataType]
    kind: Kind
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Rows under an alias; columns by their qualified names."""

    rows: Rows
    alias: str

    @property
    def text(self) -> str:
        return f"{self.rows.text} {self.alias}"

    @property
    def columns(self) -> dict[str, DataType]:
        return {f"{self.alias}.{name}": type_ for name, type_ in self.rows.columns.items()}


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT, the kind of relation it most likely is, and whether time has to pass for its rows."""

    text: str
    kind: Kind
    waits: bool


@dataclass
class Statements:
    """SELECTs of one seed.

    Attributes:
        random: of the seed.
        forms: what makes a SELECT of these parts, or None.
        bound: the type of an expression over columns, None where the dialect refuses it; without it expressions are
            plain ones, that fail for no row.
    """

    random: random.Random
    forms: Sequence[Callable[[Statements], Select | None]]
    bound: Callable[[str, Mapping[str, DataType]], DataType | None] | None = None
    base: dict[str, Rows] = field(default_factory=dict)
    learned: list[Rows] = field(default_factory=list)
    aliases: int = 0

    def __post_init__(self) -> None:
        for name, kind in (("s", "stream"), ("r", "stream"), ("c", "changelog"), ("e", "changelog")):
            own = {"id": INTEGER} if kind == "stream" else {}
            columns = own | {"k": VARCHAR, "g": INTEGER, "v": BIGINT, "ts": MOMENT}
            columns |= {f"x{place}": self._type(2) for place in range(self.random.randint(2, 4))}
            columns |= {"n": ArrayType(self._type(1)), "m": MapType(VARCHAR, self._type(1))} if name == "s" else {}
            self.base[name] = Rows(name, columns, kind)  # type: ignore[arg-type]

    def declarations(self) -> str:
        """The four relations that everything reads."""
        texts = []
        for name, rows in self.base.items():
            columns = [f"{column} {type_}" for column, type_ in rows.columns.items()]
            keyed = rows.kind == "changelog"
            columns += [f"PRIMARY KEY({KEYS[name]})"] if keyed else []
            texts.append(
                f"CREATE {rows.kind.upper()} {name} ({', '.join(columns)})"
                f" WITH ('topic' = '{name}', 'value.format' = 'json', 'timestamp' = 'ts');"
            )
        return "\n".join(texts)

    def records(self, count: int) -> Iterator[Record]:
        """Records in the order of time, each at a moment of its own."""
        at, alive = 1_700_000_000_000, set[tuple[str, Any]]()
        for number in range(1, count + 1):
            at += self.random.choice([100, 200, 700, 1500, 4000])
            topic = self.random.choice(["s", "s", "r", "c", "e"])
            value = {name: self._value(type_) for name, type_ in self.base[topic].columns.items()}
            value |= {"ts": moment(at)} | ({"id": number} if "id" in value else {})
            key = None
            if topic in KEYS:
                name = KEYS[topic]
                value[name] = self.random.choice(["x", "y", "z"] if name == "k" else [1, 2, 3])
                key, place = {name: value[name]}, (topic, value[name])
                if place in alive and self.random.random() < 0.25:
                    alive.discard(place)
                    yield topic, key, None, at
                    continue
                alive.add(place)
            yield topic, key, value, at

    def learn(self, select: Select, columns: Mapping[str, DataType], kind: Kind) -> None:
        """The product accepts it as a relation of that kind with those columns."""
        if len(select.text) < LONGEST:
            self.learned = self.learned[-MOST_ROWS:]
            self.learned.append(Rows(f"({select.text})", columns, kind, select.waits))

    def next(self) -> Select:
        """A SELECT, often one that is refused."""
        while True:
            select = self.random.choice(self.forms)(self)
            if select is not None and len(select.text) < 4 * LONGEST:
                return select

    # parts

    @property
    def aggregates(self) -> Sequence[str]:
        return UNORDERED if self.bound is None else AGGREGATES

    def source(self, kind: Kind | None = None) -> Source:
        """Declared rows, or an earlier SELECT."""
        pool = self.learned if self.learned and self.random.random() < 0.45 else [*self.base.values()]
        pool = [rows for rows in pool if kind in (None, rows.kind)] or [*self.base.values()]
        self.aliases += 1
        return Source(self.random.choice(pool), f"q{self.aliases}")

    def column(self, columns: Mapping[str, DataType], fits: Fits) -> str | None:
        names = [name for name, type_ in columns.items() if fits(type_)]
        return self.random.choice(names) if names else None

    def expression(self, columns: Mapping[str, DataType], fits: Fits) -> str:
        """Of any form if expressions can be bound, else a plain one."""
        if self.bound is not None and self.random.random() < 0.5:
            expressions = Expressions(self.random, columns)
            expressions.first = [*expressions.first, *((text, self.bound(text, {})) for text in LITERALS)]
            expressions.parts = expressions.first
            for _ in range(15):
                text = expressions.next()
                type_ = self.bound(text, columns)
                if type_ is not None and fits(type_):
                    return text
        return self.plain(columns, fits)

    def plain(self, columns: Mapping[str, DataType], fits: Fits) -> str:
        """A column, a part of one, or a constant; it fails for no row."""
        reached = dict(columns)
        for name, type_ in columns.items():
            if isinstance(type_, StructType):
                reached |= {f"{name}->{part.name}": part.type for part in type_.fields}
            if isinstance(type_, ArrayType):
                reached |= {f"{name}[1]": type_.element, f"CARDINALITY({name})": INTEGER}
            if isinstance(type_, MapType):
                reached |= {f"{name}['a']": type_.value, f"CARDINALITY({name})": INTEGER}
        text = self.column(reached, fits)
        if text is None or self.random.random() < 0.1:
            return next((constant for type_, constant in CONSTANTS.items() if fits(type_)), text or "1")
        forms = [form for wanted, form in PLAIN if reached[text] == wanted and fits(wanted)]
        return self.random.choice(forms).format(text) if forms and self.random.random() < 0.3 else text

    def condition(self, columns: Mapping[str, DataType]) -> str:
        if self.bound is not None and self.random.random() < 0.5:
            return self.expression(columns, is_(BOOLEAN))
        type_ = self.random.choice([INTEGER, BIGINT, VARCHAR])
        left, right = (self.plain(columns, is_(type_)) for _ in range(2))
        form = self.random.choice(CONDITIONS)
        text = form.format(left, right)
        return f"({text} OR {self.condition(columns)})" if self.random.random() < 0.15 else text

    def where(self, columns: Mapping[str, DataType], word: str = " WHERE") -> str:
        return f"{word} {self.condition(columns)}" if self.random.random() < 0.35 else ""

    def items(self, columns: Mapping[str, DataType], share: float = 0.6) -> list[str]:
        """Columns as they are, and one to three expressions."""
        texts = [f"{name} AS {last(name)}" for name in columns if self.random.random() < share or is_key(name)]
        return texts + [f"{self.expression(columns, any_)} AS y{place}" for place in range(self.random.randint(1, 2))]

    def calls(self, columns: Mapping[str, DataType], forms: Sequence[str], over: str = "") -> list[str]:
        texts = []
        for place in range(self.random.randint(1, 3)):
            pieces = {word: self.expression(columns, fits) for word, fits in WORDS.items()}
            text = self.random.choice(forms).format(**pieces)
            if self.random.random() < 0.12:
                text += f" FILTER (WHERE {self.condition(columns)})"
            texts.append(f"{text}{over} AS a{place}")
        return texts

    def _type(self, depth: int) -> DataType:
        choice = self.random.random() if depth else 1.0
        if choice < 0.2:
            return ArrayType(self._type(depth - 1))
        if choice < 0.35:
            return MapType(VARCHAR, self._type(depth - 1))
        if choice < 0.55:
            return StructType(tuple(StructField(name, self._type(depth - 1)) for name in "fh"))
        return self.random.choice(SCALARS)

    def _value(self, type_: DataType) -> Any:
        if self.random.random() < 0.15:
            return None
        if isinstance(type_, ArrayType):
            return [self._value(type_.element) for _ in range(self.random.randint(0, 2))]
        if isinstance(type_, MapType):
            return {name: self._value(type_.value) for name in "ab"[: self.random.randint(0, 2)]}
        if isinstance(type_, StructType):
            return {part.name: self._value(part.type) for part in type_.fields}
        return self.random.choice(VALUES[type_.name])


def is_(wanted: DataType) -> Fits:
    return lambda type_: type_ == wanted


def any_(_: DataType) -> bool:
    return True


def is_flat(type_: DataType) -> bool:
    return isinstance(type_, Scalar)


def is_group(type_: DataType) -> bool:
    return type_ in (VARCHAR, INTEGER, BIGINT, BOOLEAN, DATE)


def last(name: str) -> str:
    return name.rpartition(".")[2]


def is_key(name: str) -> bool:
    return last(name) in ("k", "g", "id", "window_start", "window_end", "scope")


def moment(millis: int) -> str:
    import datetime

    at = datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)
    return f"{at:%Y-%m-%d %H:%M:%S}.{millis % 1000:03d}"


KEYS = {"c": "k", "e": "g"}
"""Changelog → its key."""
WORDS: Mapping[str, Fits] = {
    "any": any_, "flat": is_flat, "number": is_numeric, "boolean": is_(BOOLEAN), "text": is_text,
}  # fmt: skip
CONSTANTS = {
    INTEGER: "2", BIGINT: "CAST(7 AS BIGINT)", VARCHAR: "'x'", DOUBLE: "CAST(0.25 AS DOUBLE)", BOOLEAN: "TRUE",
    decimal(10, 2): "CAST(1.5 AS DECIMAL(10,2))", DATE: "DATE '2024-02-29'",
    MOMENT: "TIMESTAMP '2023-11-14 22:13:25.000'",
}  # fmt: skip
PLAIN = (
    (INTEGER, "COALESCE({}, 3)"), (INTEGER, "CASE WHEN {} > 1 THEN 1 ELSE 0 END"), (BIGINT, "ABS({})"),
    (BIGINT, "({} * 2)"), (VARCHAR, "UPPER({})"), (VARCHAR, "({} || '-')"), (VARCHAR, "COALESCE({}, 'n')"),
    (DOUBLE, "({} * 0.5)"), (MOMENT, "FLOOR({} TO MINUTE)"), (BOOLEAN, "NOT {}"),
)  # fmt: skip
CONDITIONS = (
    "{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} IS DISTINCT FROM {}", "{0} IS NOT NULL", "{0} IN ({1}, {0})",
    "NOT ({} = {})", "{0} BETWEEN {1} AND {0}",
)  # fmt: skip
VALUES: Mapping[str, Sequence[Any]] = {
    "BOOLEAN": (True, False), "VARCHAR": ("x", "y", "z"), "INTEGER": (1, 2, 3, -1), "BIGINT": (0, 1, 2, 5, -3),
    "DOUBLE": (0.5, 1.25, -2.0), "DECIMAL": ("1.10", "2.25", "-3.00"), "DATE": ("2024-01-31", "2023-02-28"),
    "TIMESTAMP": ("2024-01-31 10:11:12.500", "2023-11-14 22:13:20.000"),
}  # fmt: skip
