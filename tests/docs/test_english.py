"""Sentences that readers of this repository stumbled over stay out of pages, messages and docstrings.

CONTRIBUTING ("English") shows them with better ones, so it may hold them.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

import pytest

from ds_dagster.conditions import CONDITIONS
from tests.architecture.trees import modules
from tests.docs.pages import pages

PHRASES = (
    "None for none",
    "begin anew",
    "begun anew",
    "take back what no longer holds",
    "all that has to be there",
    "when nobody looks",
    "do not deceive it",
    "some chance in it",
    "heals what the journal wants",
    "in the words in which",
    "may not decide there",
    "goes without being known",
    "Stand the stream first",
    "while a partner is there",
    "gaps are borne",
    "What no test can wait for",
    "both of its ages",
    "went below the step",
    "the look is the younger",
    "either is taken for the other",
    "beside whose columns",
    "says for itself what",
    "begins anew",
    "empty for none",
    "may stand over",
    "stand over one another",
    "where nobody knows",
    "what the store refuses",
    "what comes out",
    "what else is asked",
    "names begin so",
    "lags behind a",
    "is no {",
    "is no valid",
)


@lru_cache(maxsize=1)
def texts() -> dict[str, str]:
    """Pages and modules by name, each as one line."""
    code = {module.path: module.text for module in modules()}
    found = {**{name: text for name, text in pages().items() if name != "CONTRIBUTING.md"}, **code}
    return {name: " ".join(text.split()) for name, text in found.items()}


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_does_not_come_back(phrase: str) -> None:
    assert not [name for name, text in texts().items() if phrase in text]


WORDS = re.compile(
    r"\b(told|anew|shall|behind|beside|stands?|in front of|anybody|somebody|tried again)\b(?!-)|\bby itself\b|"
    r"\bfor ever\b|(?<!there )\bis no\b"
)
"""Words that conditions do not use; CONTRIBUTING has the terms to use."""
RIGHT = {"SNOWFLAKE_SERVER_INSTALL_FAILED": "a stand-in"}
"""Conditions that use one of them in its ordinary sense."""


def test_conditions_use_plain_words() -> None:
    shown = {name: f"{condition.message} | {condition.hint}" for name, condition in CONDITIONS.items()}
    assert not {name: text for name, text in shown.items() if WORDS.search(text) and name not in RIGHT}


ITEM = re.compile(r"(\*{0,2}[\w.]+(, \*{0,2}[\w.]+)*)( \([^)]*\))?: ")


def torn_lines(docstring: str) -> list[str]:
    """Lines of Args, Attributes and Raises that continue an item without its indentation."""
    torn, items = [], 0
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() in ("Args:", "Attributes:", "Raises:"):
            items = indent + 4
        elif not line.strip():
            items = 0
        elif items and indent == items and not ITEM.match(line.strip()):
            torn.append(line.strip())
    return torn


def test_docstrings_are_not_torn() -> None:
    torn = []
    for module in modules():
        for node in module.nodes():
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                torn += [f"{module.path}:{node.lineno}: {line}" for line in torn_lines(node.value.value)]
    assert not torn, "\n".join(torn)


def test_a_torn_docstring_would_be_found() -> None:
    assert torn_lines("Args:\n    name: of a thing that\n    goes on here.") == ["goes on here."]
    assert not torn_lines("Args:\n    name: of a thing that\n        goes on here.\n    other: thing.")
