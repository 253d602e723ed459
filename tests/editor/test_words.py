"""The scanner of texts that are being written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_dagster.editor.words import path_at, statement_at, words_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT Url, 1", [("name", "select"), ("name", "url"), ("sign", ","), ("sign", "1")]),
        ("'it''s' \"A b\"", [("text", "it's"), ("quoted", "A b")]),
        ("x -- no ' quote\n`y`", [("name", "x"), ("comment", "-- no ' quote"), ("quoted", "y")]),
        ("'open", [("text", "open")]),
        ('"open', [("quoted", "open")]),
        ("/* open ; ", [("comment", "/* open ; ")]),
        ("ж.z", [("name", "ж"), ("sign", "."), ("name", "z")]),
    ],
)
def test_words(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(word.kind, word.value) for word in words_of(text)] == expected


@given(st.text(alphabet="ab;'\"`-/*\n .é", max_size=40))
def test_words_are_the_text_without_spaces(text: str) -> None:
    words = words_of(text)
    assert all(text[word.start : word.end] == word.written for word in words)
    left = text
    for word in reversed(words):
        left = left[: word.start] + left[word.end :]
    assert not left.strip()


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("a b; c| d; e", "c d"),
        ("a| ';' b; c", "a ';' b"),
        ("a;|b", "b"),
        ("a|;b", "a"),
        ("a -- ; |\n b; c", "a b"),
        ("a; |", ""),
    ],
)
def test_the_statement_at_a_place(marked: str, expected: str) -> None:
    words = words_of(marked.replace("|", ""))
    assert " ".join(word.written for word in statement_at(words, marked.index("|"))) == expected


@pytest.mark.parametrize(
    ("marked", "expected"),
    [("a.b|.c", ["a", "b"]), ("x a.b.c|", ["a", "b", "c"]), ('"A".b|', ["A", "b"]), ("a + |1", []), ("|", [])],
)
def test_the_path_at_a_place(marked: str, expected: list[str]) -> None:
    assert [word.value for word in path_at(words_of(marked.replace("|", "")), marked.index("|"))] == expected
