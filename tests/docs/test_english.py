"""Sentences that readers of this repository stumbled over stay out of pages, messages and docstrings.

CONTRIBUTING ("English") shows them with better ones, so it may hold them.
"""

from __future__ import annotations

import ast
import re

import pytest

from ds_dagster.conditions import CONDITIONS
from tests.docs.pages import ROOT, pages

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
    "is no {",
    "is no valid",
)


def texts() -> dict[str, str]:
    code = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / "ds_dagster").rglob("*.py")
    }
    return {**{name: text for name, text in pages().items() if name != "CONTRIBUTING.md"}, **code}


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_does_not_come_back(phrase: str) -> None:
    assert not [name for name, text in texts().items() if phrase in " ".join(text.split())]


WORDS = re.compile(
    r"\b(told|anew|shall|behind|beside|stands?|in front of|anybody|somebody|tried again)\b(?!-)|\bby itself\b|"
    r"(?<!there )\bis no\b"
)
"""Words that conditions do not use; CONTRIBUTING has the terms to use."""
RIGHT = {"SESSION_UPDATES": "leaves rows behind", "SNOWFLAKE_SERVER_INSTALL_FAILED": "a stand-in"}
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
    for path in (ROOT / "ds_dagster").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                torn += [f"{path.relative_to(ROOT)}:{node.lineno}: {line}" for line in torn_lines(node.value.value)]
    assert not torn, "\n".join(torn)


def test_a_torn_docstring_would_be_found() -> None:
    assert torn_lines("Args:\n    name: of a thing that\n    goes on here.") == ["goes on here."]
    assert not torn_lines("Args:\n    name: of a thing that\n        goes on here.\n    other: thing.")
