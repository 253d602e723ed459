"""Random SELECTs of every form: projections, groups, windows, joins, sets, ranks, OVER, UNNEST, patterns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from ds_dagster.datatypes import BIGINT, INTEGER, VARCHAR, ArrayType, DataType, MapType, is_numeric, is_temporal
from tests.spark.queries.random_parts import (
    Rows,
    Select,
    Source,
    Statements,
    is_,
    is_flat,
    is_group,
    is_key,
    last,
)

RUNNING = ("COUNT(*)", "SUM({number})", "AVG({number})", "MIN({flat})", "MAX({number})", "LAST_VALUE({any})")
FRAMES = (
    "", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW",
)  # fmt: skip
WINDOWS = (
    "TUMBLE({}, SIZE 3 SECONDS)", "HOP({}, SIZE 4 SECONDS, ADVANCE BY 2 SECONDS)",
    "CUMULATE({}, SIZE 6 SECONDS, STEP 2 SECONDS)", "SESSION({}, GAP 2 SECONDS)",
)  # fmt: skip
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
SET_OPERATIONS = ("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT")


def projection(one: Statements) -> Select:
    source = one.source()
    columns, distinct = source.columns, "DISTINCT " if one.random.random() < 0.2 else ""
    items = ", ".join(one.items(columns))
    return Select(
        f"SELECT {distinct}{items} FROM {source.text}{one.where(columns)}", source.rows.kind, source.rows.waits
    )


def grouped(one: Statements) -> Select:
    """Groups, or a total, which a question has also over no row."""
    source = one.source()
    columns = source.columns
    groups: dict[str, str] = {}
    for place in range(one.random.randint(0, 2)):
        name = one.column(columns, is_group)
        text = name if name and one.random.random() < 0.75 else one.plain(columns, is_(INTEGER))
        groups[text] = last(name) if text == name else f"group{place}"
    calls = one.calls(columns, one.aggregates)
    items = ", ".join([*(f"{text} AS {name}" for text, name in groups.items()), *calls])
    grouping = f" GROUP BY {', '.join(groups)}" if groups else ""
    having = f" HAVING COUNT(*) > {one.random.randint(0, 2)}" if groups and one.random.random() < 0.2 else ""
    constant = "" if groups else "'all' AS scope, "
    where = one.where(columns)
    return Select(
        f"SELECT {constant}{items} FROM {source.text}{where}{grouping}{having}",
        "changelog",
        source.rows.waits or not groups,
    )


def windowed(one: Statements) -> Select:
    source = one.source("stream")
    one.aliases += 1
    window = Source(
        Rows(one.random.choice(WINDOWS).format(source.text), source.rows.columns, "stream"), f"q{one.aliases}"
    )
    columns = {name: type_ for name, type_ in window.columns.items() if not last(name).startswith("window_")}
    if one.random.random() < 0.25:
        items = ", ".join(["window_start", "window_end", *one.items(columns)])
        return Select(f"SELECT {items} FROM {window.text}{one.where(columns)}", "stream", True)
    key = one.column(columns, is_group)
    keys = [key] if key and one.random.random() < 0.7 else []
    bounds = ["window_start", "window_end"]
    items = ", ".join([*bounds, *(f"{name} AS {last(name)}" for name in keys), *one.calls(columns, one.aggregates)])
    return Select(
        f"SELECT {items} FROM {window.text}{one.where(columns)} GROUP BY {', '.join([*bounds, *keys])}",
        "changelog",
        True,
    )


def joined(one: Statements) -> Select | None:
    left, right = one.source(), one.source()
    pairs = [
        (a, b)
        for a, type_ in left.columns.items()
        for b, other in right.columns.items()
        if type_ == other and type_ in (VARCHAR, INTEGER, BIGINT)
    ]
    if not pairs:
        return None
    a, b = one.random.choice([pair for pair in pairs if last(pair[0]) == last(pair[1])] or pairs)
    bounds = [
        name for name in ("window_start", "window_end") if name in left.rows.columns and name in right.rows.columns
    ]
    terms = [f"{a} = {b}", *(f"{left.alias}.{name} = {right.alias}.{name}" for name in bounds)]
    both = left.columns | right.columns
    terms += [one.condition(both)] if one.random.random() < 0.15 else []
    streams = left.rows.kind == right.rows.kind == "stream"
    within = " WITHIN 3 SECONDS" if streams and not bounds else ""
    items = []
    for place, source in (("l", left), ("r", right)):
        for name in source.columns:
            if is_key(name) or name in (a, b) or one.random.random() < 0.5:
                items.append(f"{name} AS {place}{last(name)}")
    kind = "stream" if left.rows.kind == "stream" else "changelog"
    waits = left.rows.waits or right.rows.waits or "stream" in (left.rows.kind, right.rows.kind)
    tables = f"{left.text} {one.random.choice(JOINS)} {right.text}{within} ON {' AND '.join(terms)}"
    return Select(f"SELECT {', '.join(items)} FROM {tables}", kind, waits)  # type: ignore[arg-type]


def combined(one: Statements) -> Select | None:
    left, right = one.source(), one.source()
    pairs = [(name, one.column(right.columns, is_(type_))) for name, type_ in left.columns.items()]
    pairs = [pair for pair in pairs if pair[1]][: one.random.randint(1, 4)]
    operation = one.random.choice(SET_OPERATIONS)
    if not pairs:
        return None
    sides = []
    for source, place in ((left, 0), (right, 1)):
        items = ", ".join(f"{pair[place]} AS u{number}" for number, pair in enumerate(pairs))
        sides.append(f"SELECT {items} FROM {source.text}{one.where(source.columns)}")
    appended = operation == "UNION ALL" and left.rows.kind == right.rows.kind == "stream"
    return Select(
        f" {operation} ".join(sides), "stream" if appended else "changelog", left.rows.waits or right.rows.waits
    )


def ranked(one: Statements) -> Select | None:
    source = one.source()
    columns = source.columns
    order, key = (
        one.column(columns, lambda type_: is_numeric(type_) or is_temporal(type_)),
        one.column(columns, is_group),
    )
    ties = [name for name, type_ in columns.items() if is_flat(type_)]
    if order is None:
        return None
    ordered = ", ".join([f"{order} {one.random.choice(['', 'DESC', 'NULLS LAST', 'DESC NULLS FIRST'])}", *ties])
    items = ", ".join(f"{name} AS {last(name)}" for name in columns)
    if one.random.random() < 0.25:
        text = f"SELECT {items} FROM {source.text} ORDER BY {ordered} LIMIT {one.random.randint(1, 3)}"
        return Select(text, "changelog", source.rows.waits)
    call = one.random.choice(["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"])
    part = f"PARTITION BY {key} " if key and one.random.random() < 0.7 else ""
    inner = f"SELECT {items}, {call}() OVER ({part}ORDER BY {ordered}) AS rn FROM {source.text}{one.where(columns)}"
    one.aliases += 1
    outer = ", ".join([*map(last, columns), *(["rn"] if one.random.random() < 0.5 else [])])
    bound = one.random.choice(["<= 2", "= 1", "< 3"])
    return Select(f"SELECT {outer} FROM ({inner}) q{one.aliases} WHERE rn {bound}", "changelog", source.rows.waits)


def over(one: Statements) -> Select | None:
    source = one.source("stream")
    columns = source.columns
    if "ts" not in source.rows.columns:
        return None
    key = one.column(columns, is_group)
    part = f"PARTITION BY {key} " if key and one.random.random() < 0.8 else ""
    ordered = f"OVER ({part}ORDER BY {source.alias}.ts"
    is_shift = one.random.random() < 0.25
    forms = (one.random.choice(["LAG({any})", "LAG({flat}, 2)"]),) if is_shift else RUNNING
    frame = "" if is_shift else one.random.choice(FRAMES)
    calls = [
        text.replace(" FILTER", " ") if is_shift and " FILTER" in text else text
        for text in one.calls(columns, forms, f" {ordered}{frame})")
    ]
    kept = [f"{name} AS {last(name)}" for name in columns if last(name) in ("id", "k", "ts")]
    return Select(f"SELECT {', '.join([*kept, *calls])} FROM {source.text}{one.where(columns)}", "stream", True)


def unnested(one: Statements) -> Select | None:
    source = one.source()
    name = one.column(source.columns, lambda type_: isinstance(type_, ArrayType | MapType))
    if name is None:
        return None
    one.aliases += 1
    alias, is_outer = f"q{one.aliases}", one.random.random() < 0.4
    names = ["y"] if isinstance(source.columns[name], ArrayType) else ["mk", "mv"]
    place = one.random.random() < 0.3
    names += ["pos"] if place else []
    word, ends = ("LEFT JOIN", " ON TRUE") if is_outer else ("CROSS JOIN", "")
    ordinality = " WITH ORDINALITY" if place else ""
    items = [f"{column} AS {last(column)}" for column in source.columns if is_key(column) or last(column) == "ts"]
    items += [f"{alias}.{column} AS {column}" for column in names]
    table = f"{source.text} {word} UNNEST({name}){ordinality} AS {alias}({', '.join(names)}){ends}"
    return Select(f"SELECT {', '.join(items)} FROM {table}", source.rows.kind, source.rows.waits)


def filtered(one: Statements) -> Select | None:
    """IN, EXISTS, or a comparison with one value."""
    source, other = one.source(), one.source()
    pairs = [(a, b) for a, x in source.columns.items() for b, y in other.columns.items() if x == y and is_group(x)]
    if not pairs:
        return None
    (a, b), choice = one.random.choice(pairs), one.random.random()
    if choice < 0.35:
        test = f"{a} IN (SELECT {b} FROM {other.text}{one.where(other.columns)})"
    elif choice < 0.75:
        test = f"{one.random.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {other.text} WHERE {b} = {a})"
    else:
        number, call = one.plain(other.columns, is_(BIGINT)), one.random.choice(["MAX", "MIN", "SUM", "COUNT"])
        compared = one.plain(source.columns, is_(BIGINT))
        test = f"{compared} {one.random.choice('=><')} (SELECT {call}({number}) FROM {other.text})"
    items = ", ".join(one.items(source.columns, 0.3))
    return Select(f"SELECT {items} FROM {source.text} WHERE {test}", "changelog", source.rows.waits or other.rows.waits)


def matched(one: Statements) -> Select:
    name = one.random.choice(["s", "r"])
    pattern = one.random.choice(["A B", "A B+", "A+ B", "A B? C", "A | B A"])
    kept = {column: type_ for column, type_ in one.base[name].columns.items() if is_flat(type_)}
    defined = [variable for variable in "AB" if variable in pattern and one.random.random() < 0.9] or ["A"]
    conditions = ", ".join(f"{v} AS {one.condition({f'{v}.{c}': t for c, t in kept.items()})}" for v in defined)
    part = "PARTITION BY k " if one.random.random() < 0.6 else ""
    one.aliases += 1
    measures = "FIRST(A.id) AS fa, LAST(id) AS la, COUNT(*) AS cnt, LAST(A.x0) AS lx"
    skip = one.random.choice(["", "AFTER MATCH SKIP TO NEXT ROW ", "AFTER MATCH SKIP PAST LAST ROW "])
    clause = f"{part}ORDER BY ts MEASURES {measures} {skip}PATTERN ({pattern}) WITHIN 10 SECONDS DEFINE {conditions}"
    items = f"{'k, ' if part else ''}fa, la, cnt, lx"
    return Select(f"SELECT {items} FROM {name} MATCH_RECOGNIZE ({clause}) q{one.aliases}", "stream", True)


FORMS: tuple[Callable[[Statements], Select | None], ...] = (
    projection, projection, grouped, grouped, grouped, windowed, windowed, joined, joined, joined, combined, ranked,
    over, unnested, filtered, matched,
)  # fmt: skip


def random_statements(
    seed: int, bound: Callable[[str, Mapping[str, DataType]], DataType | None] | None = None
) -> Statements:
    """SELECTs of a seed; ``bound``: see :class:`Statements`."""
    return Statements(random.Random(seed), FORMS, bound)
