"""Regular expressions judged without Java; ``tests/spark/functions/test_constants.py`` asks Java the same."""

from __future__ import annotations

import pytest

from ds_dagster.functions.java_regex import judge

REFUSED = (
    "a**", "a{2}*", "a|*", "(*a)", "a{", "{", "a{,3}", "a{2,1}", "[]", "[^]", "[[a]", "\\xg", "\\u12", "\\p{L", "\\c",
    "\\0", "\\k<m>", "(?", "(?P<a>b)", "(?i", "(?z)", "(?#c)", "\\E", "a\\", "[\\", "[a\\]", "(?<1a>b)", "x*+?", "x*??",
    "x+++", "[a[", "(?i)*", "(?<a>b)(?<a>c)", "a{99999999999}", "x{2}??", "x{2}++", "(", "a)", "\\q", "(a", "+",
)  # fmt: skip
ACCEPTED = {
    "": 0, "a{2}{3}": 0, "^*": 0, "a}": 0, "]": 0, "[]a]": 0, "[^]a]": 0, "[a-z&&[^b]]": None, "(?x) (a": None,
    "(?<n>a)\\k<n>": 1, "(a)\\2": 1, "\\1": 0, "\\07": 0, "\\pL": 0, "\\Q((\\E": 0, "\\Q(": 0, "()*": 1, "(|a)": 1,
    "$*": 0,
    "\\b+": 0, "(?=a)*": 0, "\\N{DIGIT ONE}": 0, "\\cA": 0, "\\x{41}": 0, "(?<=a{1,3})(b)": 1, "(a(?i)b)": 1, "{1}": 0,
    "x{2}+": 0, "(\\w)=(\\d)": 2, "(?:a)(b)": 1, "(?i:a)(b)": 1, "[(]": 0, "\\(": 0, "a++": 0, "[a[bc]]*": 0,
}  # fmt: skip
"""Expression → its groups."""


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    assert judge(text)[0]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert judge(text) == ("", ACCEPTED[text])
