"""Sentences that readers of this repository stumbled over stay out of pages, messages and docstrings.

CONTRIBUTING ("English") shows them with better ones, so it may hold them.
"""

from __future__ import annotations

import pytest

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
