"""Messages name what a statement writes: never the function that a form or another spelling is read as."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
from sqlglot import exp

from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError
from ds_dagster.functions.table import ALIASES, FUNCTIONS
from ds_dagster.plan.binding.scope import Scope, Source, visible
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.expressions.calls import Aggregates
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.nodes.node import Field
from ds_dagster.sql.script import parse_select, parse_type

TYPES: Mapping[str, str] = {
    "flag": "BOOLEAN",
    "word": "VARCHAR",
    "whole": "INTEGER",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "wholes": "ARRAY<INTEGER>",
    "pairs": "MAP<VARCHAR,INTEGER>",
    "row_": "STRUCT<f INTEGER>",
}
"""Columns: a type of every kind."""
FORMS = (
    "{} ILIKE 'a'", "word ILIKE {}", "{} NOT ILIKE 'A' ESCAPE '!'", "{} SIMILAR TO 'a'", "{} IS JSON",
    "{} IS NOT JSON", "{} AT TIME ZONE 'UTC'", "moment AT TIME ZONE {}", "FLOOR({} TO DAY)", "CEIL({} TO DAY)",
    "CEILING({} TO DAY)", "FLOOR({} TO EON)", "DATE_TRUNC('day', {})", "EXTRACT(DAY FROM {})", "EXTRACT(EON FROM {})",
    "TRIM({})", "TRIM(LEADING FROM {})", "TRIM(TRAILING 'a' FROM {})", "TRIM(BOTH {} FROM word)",
    "TRIM(LEADING {} FROM word)", "POSITION({} IN word)", "POSITION(word IN {})", "SUBSTRING({} FROM 1)",
    "SUBSTRING(word FROM {})", "SUBSTRING(word FROM 1 FOR {})", "OVERLAY({} PLACING 'a' FROM 1)",
    "OVERLAY('a' PLACING {} FROM 1)", "OVERLAY('a' PLACING 'a' FROM {})", "JSON_VALUE({}, '$' DEFAULT 'x' ON EMPTY)",
    "JSON_VALUE(word, {} DEFAULT 'x' ON EMPTY)", "JSON_VALUE(word, '$' DEFAULT {} ON EMPTY)",
    "JSON_VALUE(word, '$' RETURNING INTEGER DEFAULT {} ON ERROR)", "JSON_VALUE({}, '$' RETURNING INTEGER)",
    "JSON_QUERY({}, '$' WITHOUT WRAPPER)", "JSON_OBJECT({} VALUE 1)", "JSON_OBJECT({} VALUE 1 ABSENT ON NULL)",
    "JSON_ARRAY({} NULL ON NULL)", "COALESCE({}, flag)", "{} || 'a'", "CASE {} WHEN flag THEN 1 END", "-{}",
    "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {})", "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {})",
    "TIMESTAMPDIFF(DAY, {}, moment)", "TIMESTAMPADD(DAY, {}, moment)", "COUNT(DISTINCT {})", "COLLECT({})",
    "ARRAY_AGG(DISTINCT {})", "STDDEV({})", "STDDEV(DISTINCT {})", "VARIANCE({})", "{} BETWEEN flag AND flag",
    "{} + INTERVAL '1' DAY", "{} IN (flag)", "{} LIKE 'a'",
)  # fmt: skip
NAMES = frozenset((*FUNCTIONS, *ALIASES)) - {"SECOND", "SIGN"}
"""Functions; the rest are words of messages too."""
OTHER_SCOPES = ("metadata", "grouping", "window")
"""Kinds that have rules of their own, about rows and not about types."""


def calls() -> Iterator[str]:
    """Every spelling of every function, with every number of arguments, each of every kind."""
    for name in (*FUNCTIONS, *ALIASES):
        function = FUNCTIONS[ALIASES.get(name, name)]
        if function.kind in OTHER_SCOPES:
            continue
        signatures = function.signatures
        counts = {count for s in signatures for count in range(s.least, (s.most or s.least + 1) + 1)}
        for count in counts | {0, 6}:
            for chosen in range(count):
                for column in TYPES:
                    arguments = (column if position == chosen else "word" for position in range(count))
                    yield f"{name}({', '.join(arguments)})"
            if not count:
                yield f"{name}()"


def forms() -> Iterator[str]:
    """Every form with every kind of argument."""
    yield from (form.replace("{}", column) for form in FORMS for column in TYPES)


@pytest.fixture(scope="module")
def scope() -> Scope:
    scope = Scope(Span("test.sql", 1, 1, 1, 1))
    fields = [(name, Field(name, parse_type(type_), True)) for name, type_ in TYPES.items()]
    scope.sources.append(Source("s", "s", visible(fields), "", {}))
    return scope


def trees_of(texts: Sequence[str]) -> list[exp.Expression]:
    """Expressions as they are read."""
    items = ", ".join(f"{text} AS x" for text in texts)
    return [item.this for item in parse_select(f"SELECT {items} FROM s").tree.expressions]


def refusals(scope: Scope, texts: Sequence[str]) -> Iterator[tuple[str, DsError | None]]:
    """Why expressions are refused, None for those that are accepted. They are read as one statement, but where one of
    them cannot be read: each statement more costs as much as its expression."""
    try:
        trees = trees_of(texts)
    except DsError as unreadable:
        if len(texts) == 1:
            yield texts[0], unreadable
            return
        middle = len(texts) // 2
        yield from refusals(scope, texts[:middle])
        yield from refusals(scope, texts[middle:])
        return
    for text, tree in zip(texts, trees, strict=True):
        try:
            ExpressionBinder(scope, "SELECT", Aggregates()).expression(tree)
        except DsError as refused:
            yield text, refused
        else:
            yield text, None


def all_refusals(scope: Scope, texts: Sequence[str], size: int = 16) -> Iterator[tuple[str, DsError | None]]:
    """The same of any number of expressions."""
    for start in range(0, len(texts), size):
        yield from refusals(scope, texts[start : start + size])


def names_in(text: str) -> set[str]:
    """Functions whose names are words of a text."""
    return {word.upper() for word in re.findall(r"[A-Za-z_]\w*", text)} & NAMES


@pytest.mark.sweep
@pytest.mark.parametrize("texts", [calls, forms])
def test_messages_name_what_is_written(scope, texts):
    refused = {
        text: str(error).splitlines()[0] for text, error in all_refusals(scope, list(texts())) if error is not None
    }
    wrong = {text: message for text, message in refused.items() if names_in(message) - names_in(text)}
    assert len(refused) > 200
    assert not wrong


def test_forms_are_shown_as_they_are_written(scope):
    accepted = [text for text, error in all_refusals(scope, list(forms())) if error is None]
    for text, tree in zip(accepted, trees_of(accepted), strict=True):
        shown = expression_text(tree, str)
        assert names_in(shown) <= names_in(text), (text, shown)
    assert len(accepted) > 50


def test_a_unit_is_shown_as_it_is_written():
    text = "TIMESTAMPDIFF(DAY, moment, moment)"
    assert expression_text(trees_of([text])[0], str) == text


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("whole ILIKE 'a'", "ILIKE cannot take INTEGER and VARCHAR", "convert one side: CAST(value AS TYPE)"),
        ("whole IS JSON", "IS JSON cannot take INTEGER", "write text IS JSON; CAST converts a value"),
        ("CEILING(flag TO DAY)", "CEILING cannot take BOOLEAN", "write CEILING(temporal TO unit); CAST"),
        ("DATE_TRUNC('day', word)", "DATE_TRUNC cannot take VARCHAR", "write DATE_TRUNC('unit', temporal); CAST"),
        ("FLOOR(day TO EON)", "FLOOR cannot take EON", "write FLOOR with one of YEAR, QUARTER"),
        ("IFNULL(whole, word)", "the arguments of IFNULL have no common type: INTEGER, VARCHAR", ""),
        ("EVERY(whole)", "EVERY cannot take INTEGER", "write EVERY(boolean)"),
        ("-word", "- cannot take VARCHAR", "write -number; CAST converts a value"),
        ("CASE whole WHEN word THEN 1 END", "CASE … WHEN cannot take INTEGER and VARCHAR", ""),
        ("TRIM(LEADING whole FROM word)", "TRIM cannot take INTEGER, VARCHAR", "BOTH] text FROM text)"),
    ],
)
def test_message(scope, text, message, hint):
    ((_, error),) = refusals(scope, [text])
    assert message in str(error)
    assert hint in str(error)
