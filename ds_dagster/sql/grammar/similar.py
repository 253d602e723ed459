r"""Translates the pattern of ``SIMILAR TO`` into a regular expression of Java.

``%`` is any text, ``_`` any character; ``| * + ? { } ( ) [ ]`` mean what they mean in regular expressions, and every
other character matches itself. Source: ISO/IEC 9075-2, "<similar predicate>".
"""

from __future__ import annotations

from collections.abc import Iterator

_KEPT = frozenset("|*+?{}()")
_WILD = {"%": "[\\s\\S]*", "_": "[\\s\\S]"}
_SPECIAL = frozenset("\\^$.|*+?{}()[]&-~#")
_CLASSES = {
    "[:ALPHA:]": "a-zA-Z",
    "[:UPPER:]": "A-Z",
    "[:LOWER:]": "a-z",
    "[:DIGIT:]": "0-9",
    "[:ALNUM:]": "a-zA-Z0-9",
    "[:SPACE:]": " ",
    "[:WHITESPACE:]": "\\s",
}


def similar_pattern(pattern: str, escape: str = "") -> str:
    """The regular expression; it matches whole texts only.

    Args:
        pattern: pattern after SIMILAR TO.
        escape: escape character; empty if there is none.

    Raises:
        ValueError: the pattern ends with the escape character, or ``[`` is not closed.
    """
    return "\\A(?:" + "".join(_parts(pattern, escape)) + ")\\z"


def _parts(pattern: str, escape: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape:
            if at + 1 == len(pattern):
                raise ValueError(f"it ends with the escape character {escape}")
            yield _itself(pattern[at + 1])
            at += 2
        elif char == "[":
            end = _end_of_class(pattern, at)
            yield _class(pattern[at + 1 : end])
            at = end + 1
        else:
            yield _WILD.get(char) or (char if char in _KEPT else _itself(char))
            at += 1


def _itself(char: str) -> str:
    return "\\" + char if char in _SPECIAL else char


def _end_of_class(pattern: str, at: int) -> int:
    end, inner = at + 1, ""
    while end < len(pattern):
        inner = next((name for name in _CLASSES if pattern[end:].upper().startswith(name)), "")
        if not inner and pattern[end] == "]":
            return end
        end += len(inner) or 1
    raise ValueError("a class [ is not closed")


def _class(inside: str) -> str:
    negated = inside.startswith("^")
    text = inside[negated:]
    for name, java in _CLASSES.items():
        at = text.upper().find(name)
        if at >= 0:
            text = text[:at] + java + text[at + len(name) :]
    plain = "".join("\\" + char if char in "[&" else char for char in text)
    return f"[{'^' if negated else ''}{plain}]"
