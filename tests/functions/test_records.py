"""Every function is one whole record: called somehow, computed by both engines, described, shown, and tested so."""

from __future__ import annotations

from ds_dagster.functions.function import FAMILIES, Function
from ds_dagster.functions.table import ALIASES, FUNCTIONS, KNOWN_LATER
from tests.tables import check_every


def of_kind(kind: str) -> list[Function]:
    return [function for function in FUNCTIONS.values() if function.kind == kind]


def test_every_function_can_be_called() -> None:
    def check_signatures(function: Function) -> None:
        assert function.signatures
        for form in function.signatures:
            assert {word.rstrip("?+*") for word in form.words} <= set(FAMILIES)
            assert form.accepts_count(form.least)

    check_every(FUNCTIONS.values(), check_signatures, name=lambda function: function.name)


def test_every_function_of_a_row_is_computed_by_both_engines() -> None:
    def check_meanings(function: Function) -> None:
        assert function.spark is not None
        assert function.question is not None

    check_every(of_kind("scalar"), check_meanings, name=lambda function: function.name)


def test_every_function_is_described_and_shown() -> None:
    def check_texts(function: Function) -> None:
        assert function.meaning
        assert not function.meaning.endswith(".")
        assert function.examples
        assert any(function.name in example.call or is_written_otherwise(function) for example in function.examples)

    check_every(of_kind("scalar"), check_texts, name=lambda function: function.name)


def is_written_otherwise(function: Function) -> bool:
    """A call that has a form of its own says so in its meaning."""
    return "`" in function.meaning


def test_constants_are_arguments() -> None:
    for function in FUNCTIONS.values():
        most = max(len(form.words) for form in function.signatures)
        assert all(constant.at < most for constant in function.constants), function.name


def test_names_are_names_of_one_function() -> None:
    assert not set(ALIASES) & set(FUNCTIONS)
    assert not set(KNOWN_LATER) & (set(FUNCTIONS) | set(ALIASES))
    assert sum(len(function.aliases) for function in FUNCTIONS.values()) == len(ALIASES)
    assert all(name == name.upper() for name in (*FUNCTIONS, *ALIASES))
