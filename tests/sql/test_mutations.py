"""Broken files: whatever is done to good SQL, it parses or yields diagnostics with places; never a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ds_dagster.conditions import CONDITIONS
from ds_dagster.sql import parse_file, parse_statement, print_statement
from ds_dagster.sql.statements import ParsedFile

ROOT = Path(__file__).parents[2]
TEXTS = [
    path.read_text("utf-8")
    for folder in (
        ROOT / "sql",
        ROOT / "tests" / "fixtures" / "parse",
        ROOT / "tests" / "fixtures" / "refused" / "syntax",
    )
    for path in sorted(folder.glob("*.sql"))
]
STATEMENTS = [part for text in TEXTS for part in re.split(r"\n(?=-- case)|;\n", text) if part.strip()]
JUNK = [
    "'", '"', "`", "’", "“", "(", ")", ",", ";", "/*", "*/", "--", "->", "::", "${", "{#", "{{", "\x00", "\ufeff", "é",
    "$$", " SELECT ", " FROM ", " WITH ", " AS ", " WITHIN ", " JOIN ", " NOT ", " CASE ", " OVER (", " IN (", "\\",
    " BETWEEN ", "@", "?", " NULL ", " INTERVAL ", " 5 ", "1e", "0x", "..", "<", ">", "[", "]", "N'", " DATE '", "{",
    "\r", "\n", "/*+", "ARRAY<", "''",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One to three statements with up to four places deleted, doubled, swapped or spoilt."""
    text = ";\n".join(draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        piece = draw(
            st.sampled_from(["", text[begin:end] * 2, text[begin:end][::-1], *draw(st.permutations(JUNK))[:3]])
        )
        text = text[:begin] + piece + text[end:]
    return text


def check(text: str) -> ParsedFile:
    parsed = parse_file("a.sql", text)
    lines = text.split("\n")
    for found in parsed.diagnostics:
        assert found.condition in CONDITIONS
        assert found.span is not None
        assert found.span.file == "a.sql"
        assert 1 <= found.span.line <= len(lines)
        assert 1 <= found.span.column <= len(lines[found.span.line - 1]) + 1
        assert found.text()
    broken = len(parsed.broken)
    assert (broken > 0) == any(found.severity == "error" for found in parsed.diagnostics)
    for statement in parsed.statements:
        origin = statement.origin
        assert parse_statement(origin.text).__class__ is statement.__class__
        printed = print_statement(statement)
        assert print_statement(parse_statement(printed)) == printed
    return parsed


@pytest.mark.sweep
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_files(text: str) -> None:
    check(text)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="abc\"'`’“;,.()[]{}<>=*/-+%|$#@!?\n \\0123456789", max_size=60))
def test_noise(text: str) -> None:
    check(text)


WORDS = [*["SELECT", "FROM", "WHERE", "CASE", "END", "NOT", "IN", "JOIN", "ON", "AS", "WITH"], *"a(),*=1", "->", "'x'"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14))
def test_words_in_any_order(words: list[str]) -> None:
    check(" ".join(["SELECT", *words]))
