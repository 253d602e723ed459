"""Every function and operator with every type an argument can have, as texts of the dialect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ds_dagster.functions.function import FAMILIES, Signature
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.sql.script import parse_type

PRIMITIVES = (
    "BOOLEAN", "VARCHAR", "VARCHAR(5)", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)",
    "DECIMAL(38,18)", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "VARBINARY",
)  # fmt: skip
INNER = ("MAP<VARCHAR,INTEGER>", "STRUCT<f INTEGER>", "STRUCT<f MAP<VARCHAR,INTEGER>>", "ARRAY<INTEGER>")
PARTS = (*PRIMITIVES, *INNER)
TYPES = (
    *PRIMITIVES,
    *(f"ARRAY<{part}>" for part in (*PARTS, "ARRAY<MAP<VARCHAR,INTEGER>>")),
    *(f"MAP<VARCHAR,{part}>" for part in PARTS),
    "MAP<INTEGER,VARCHAR>",
    "MAP<DATE,ARRAY<INTEGER>>",
    *(f"STRUCT<f {part}>" for part in PARTS),
)
"""Types of the columns, as the dialect writes them."""
KINDS = (
    "BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL(38,18)", "VARCHAR", "VARBINARY", "DATE", "TIME", "TIMESTAMP",
    "TIMESTAMP_LTZ", "ARRAY<DECIMAL(10,2)>", "ARRAY<STRUCT<f INTEGER>>", "MAP<VARCHAR,ARRAY<INTEGER>>",
    "MAP<INTEGER,VARCHAR>", "STRUCT<f MAP<VARCHAR,INTEGER>>",
)  # fmt: skip
"""A type of each kind of storage: the others cost minutes of analysis and generated code, with the long tests."""
COLUMNS = {type_: f"c{position}" for position, type_ in enumerate(TYPES)}
"""Type → the column of that type."""
READ = {type_: parse_type(type_) for type_ in TYPES}
ALIKE = ("same", "element", "same_array", "same_map")
COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
COMBINED = ("+", "-", "*", "/", "%", "||", "LIKE", *COMPARED)


def calls(kind: str, types: Sequence[str]) -> Iterator[str]:
    """Calls of all functions of a kind: each argument takes those of the types its word accepts, the others stay."""
    functions = [function for function in FUNCTIONS.values() if function.kind == kind]
    for function, signature in ((one, form) for one in functions for form in one.signatures):
        for count in range(signature.least, (signature.most or signature.least + 1) + 1):
            if signature.accepts_count(count):
                yield from dict.fromkeys(_called(function.name, signature, count, types))


def _called(name: str, signature: Signature, count: int, types: Sequence[str]) -> Iterator[str]:
    words = [signature.word(position) for position in range(count)]
    if not words:
        yield f"{name}()"
    for position in range(count):
        for type_ in types:
            if FAMILIES[words[position]](READ[type_]):
                yield f"{name}({', '.join(_arguments(name, words, position, type_))})"


def _arguments(name: str, words: Sequence[str], chosen: int, type_: str) -> Iterator[str]:
    shared = words[chosen].startswith("same")
    for position, word in enumerate(words):
        if position == chosen or (shared and word.startswith("same")):
            yield COLUMNS[type_]
        elif position == 0 and any(constant.kind == "unit" for constant in FUNCTIONS[name].constants):
            yield "'DAY'"
        elif word == "element":
            yield COLUMNS.get(type_.removeprefix("ARRAY<").removesuffix(">"), "c0")
        else:
            yield COLUMNS[next(known for known in TYPES if FAMILIES[word](READ[known]))]


def operations(types: Sequence[str]) -> Iterator[str]:
    """Operators, conditions, branches, casts and parts, of these types."""
    primitives = [type_ for type_ in types if type_ in PRIMITIVES]
    for left in primitives:
        for right in primitives:
            for operator in COMBINED:
                yield f"{COLUMNS[left]} {operator} {COLUMNS[right]}"
            yield f"CASE WHEN c0 THEN {COLUMNS[left]} ELSE {COLUMNS[right]} END"
            yield f"{COLUMNS[left]} IN ({COLUMNS[right]})"
            yield f"{COLUMNS[left]} BETWEEN {COLUMNS[right]} AND {COLUMNS[left]}"
            yield f"COALESCE({COLUMNS[left]}, {COLUMNS[right]})"
    for column in (COLUMNS[type_] for type_ in types):
        for operator in COMBINED:
            yield f"{column} {operator} {column}"
        yield from (f"{column} IS NULL", f"-{column}", f"{column} = NULL", f"{column} IN ({column}, NULL)")
        yield from (f"{column} BETWEEN {column} AND {column}", f"ARRAY[{column}, {column}]", f"{column}[{column}]")
        yield from (f"CASE {column} WHEN {column} THEN {column} END", f"{column}['f']", f"{column}[1]", f"{column}->f")
        yield from (f"{column} + INTERVAL '1' DAY", f"{column} - INTERVAL '1' MONTH", f"CASE WHEN {column} THEN 1 END")
        for target in types:
            yield f"CAST({column} AS {target})"
            yield f"TRY_CAST({column} AS {target})"
