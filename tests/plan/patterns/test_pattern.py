"""The automaton of a pattern: which ways it has, in which order, and what can be told of it."""

from __future__ import annotations

from itertools import islice

import pytest

from ds_dagster.plan.nodes.match import Match
from ds_dagster.plan.patterns.pattern import (
    ACCEPT,
    Automaton,
    Pattern,
    automaton,
    is_unbounded,
    pattern_text,
    size,
    variables,
)
from tests.plan.conftest import Compile

SQL = """CREATE STREAM s AS SELECT x FROM clicks MATCH_RECOGNIZE (ORDER BY at MEASURES LAST(at) AS x
  PATTERN ({pattern}) WITHIN 1 HOUR DEFINE {variable} AS ok) WITH ('timestamp' = 'at');"""


@pytest.fixture
def pattern_of(compile_sql: Compile):  # type: ignore[no-untyped-def]
    def read(text: str) -> Pattern:
        variable = next(letter for letter in text if letter.isalpha())
        project = compile_sql(SQL.format(pattern=text, variable=variable))
        assert not project.errors, [found.text() for found in project.errors]
        (query,) = project.queries.values()
        return next(node for node in query.root.walk() if isinstance(node, Match)).pattern

    return read


def ways(machine: Automaton, most: int) -> list[str]:
    """The first ways to the end, best first, none longer than ``most`` rows."""

    def search(state: int, so_far: str) -> list[str]:
        found = []
        for step in machine.states[state]:
            if step.variable == ACCEPT:
                found.append(so_far)
            elif len(so_far) < most:
                found += search(step.to, so_far + step.variable)
        return found

    return list(islice(search(0, ""), 12))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c", ["abc"]),
        ("a b?", ["ab", "a"]),
        ("a b??", ["a", "ab"]),
        ("a+", ["aaa", "aa", "a"]),
        ("a+?", ["a", "aa", "aaa"]),
        ("a b*", ["abb", "ab", "a"]),
        ("a{2}", ["aa"]),
        ("a{1,2} b", ["aab", "ab"]),
        ("a{1,2}? b", ["ab", "aab"]),
        ("a{2,}", ["aaa", "aa"]),
        ("a{,2} b", ["aab", "ab", "b"]),
        ("a | b c | d", ["a", "bc", "d"]),
        ("(a | b){2}", ["aa", "ab", "ba", "bb"]),
        ("(a b?)+ c", ["abc", "aac", "ac"]),
        ("(a?)* b", ["aab", "ab", "b"]),
        ("((a*)*)* b", ["aab", "ab", "b"]),
    ],
)
def test_ways_by_preference(text, expected, pattern_of) -> None:  # type: ignore[no-untyped-def]
    assert ways(automaton(pattern_of(text)), 3) == expected


@pytest.mark.parametrize(
    ("text", "needs_row", "unbounded"),
    [
        ("a b", False, False),
        ("a b+", True, True),
        ("a b+?", False, True),
        ("a b+ c", False, True),
        ("a b{2,3}", True, False),
        ("a (b | c d)", False, False),
        ("a (b c | b)", False, False),
    ],
)
def test_what_an_end_needs(text, needs_row, unbounded, pattern_of) -> None:  # type: ignore[no-untyped-def]
    pattern = pattern_of(text)
    assert (automaton(pattern).needs_row_behind(), is_unbounded(pattern)) == (needs_row, unbounded)


def test_where_a_variable_may_stand(pattern_of) -> None:  # type: ignore[no-untyped-def]
    machine = automaton(pattern_of("a{1,2} (b | c) d"))
    assert [machine.can_miss(name) for name in "abcd"] == [False, True, True, False]
    assert [machine.can_begin_with(name) for name in "abcd"] == [True, False, False, False]
    assert machine.can_begin_with_last("a")
    assert not automaton(pattern_of("a{2} b")).can_begin_with_last("a")
    assert not machine.can_be_empty()


@pytest.mark.parametrize("text", ["a b+? c{2} d{3,}", "(a | b) c", "(a b)* c?? d", "a (b | c (d | e))+", "a{2,5}?"])
def test_a_pattern_is_shown_as_it_is_read(text, pattern_of) -> None:  # type: ignore[no-untyped-def]
    pattern = pattern_of(text)
    assert pattern_text(pattern) == text
    assert variables(pattern) == tuple(letter for letter in text if letter.isalpha())


def test_quantifiers_are_written_out(pattern_of) -> None:  # type: ignore[no-untyped-def]
    pattern = pattern_of("(a b{3}){5} c*")
    assert size(pattern) == 21
    assert len(automaton(pattern).states) == 21


def test_event_time_is_known_through_projections(compile_sql: Compile) -> None:
    project = compile_sql(
        """CREATE STREAM s AS SELECT at AS moment, at + 1 AS later, url FROM clicks WITH ('timestamp' = 'at') WHERE ok;
        CREATE CHANGELOG c AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url;"""
    )
    assert project.queries["s"].root.input.time_fields == {"moment"}
    assert project.queries["c"].root.input.time_fields == frozenset()
