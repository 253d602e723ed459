r"""A regular expression of Java as Python's, for questions; forms with another meaning in Python are rewritten.

Rules: ``java.util.regex.Pattern`` of Java 17 without flags: ``\w``, ``\d``, ``\s`` and ``(?i)`` cover ASCII only,
``\b`` covers all letters, ``.`` and ``$`` have five ends of a line. Forms that Python does not have are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from ds_dagster.functions.java_regex import judge

_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_BLANKS = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_AT_THE_END = rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)"
_FLAGS = re.compile(r"\(\?([a-zA-Z-]+)[:)]")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\\\]])*\]", re.DOTALL)
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x\{([0-9a-fA-F]+)\}|c(.)|k<(\w+)>|(.))", re.DOTALL)
_ESCAPES: Mapping[str, str] = MappingProxyType(
    {
        "z": r"\Z",
        "Z": _AT_THE_END,
        "b": r"(?u:\b)",
        "B": r"(?u:\B)",
        "e": r"\x1b",
        "h": f"[{_BLANKS}]",
        "H": f"[^{_BLANKS}]",
        "v": rf"[{_LINE_ENDS}\x0b\f]",
        "V": rf"[^{_LINE_ENDS}\x0b\f]",
        "R": rf"(?:\r\n|[{_LINE_ENDS}\x0b\f])",
    }
)
"""Letter after a backslash → Python's expression, for letters that Python lacks or gives another meaning."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """A Java regular expression, compiled by Python.

    Raises:
        ValueError: it is not valid, or uses a form that Python does not have.
    """
    refused, _ = judge(pattern)
    try:
        if refused:
            raise ValueError(refused)
        return re.compile(_Rewriting(pattern).text(), re.ASCII)
    except (re.error, ValueError) as problem:
        raise ValueError(f"'{pattern}' is not a regular expression that a question can use: {problem}") from problem


class _Rewriting:
    """One expression while it is rewritten. ``text`` raises ValueError for a form that Python does not have."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.flags = "".join(_FLAGS.findall(pattern))
        self.at = 0

    def text(self) -> str:
        """Python's expression."""
        if "x" in self.flags:
            raise ValueError("the flag x")
        parts = []
        while self.at < len(self.pattern):
            parts.append(self._part())
        return "".join(parts)

    def _part(self) -> str:
        char = self.pattern[self.at]
        special = _PARTS.get(char)
        if special is not None:
            return special(self)
        self.at += 1
        return char

    def _escape(self) -> str:
        quoted = _QUOTED.match(self.pattern, self.at)
        if quoted is not None:
            self.at = quoted.end()
            return re.escape(quoted[1])
        escape = _ESCAPE.match(self.pattern, self.at)
        assert escape is not None  # Java refuses a backslash at the end
        self.at = escape.end()
        code, control, name, letter = escape.groups()
        if code is not None or control is not None:
            return re.escape(chr(int(code, 16)) if code is not None else chr(ord(control) ^ 64))
        return f"(?P={name})" if name is not None else _ESCAPES.get(letter, escape[0])

    def _class(self) -> str:
        whole = _CLASS.match(self.pattern, self.at)
        inner = re.sub(r"\\.", "", whole[0][1:-1], flags=re.DOTALL) if whole else "["
        if whole is None or "[" in inner or "&&" in inner or re.search(r"\\[hHvVRQEec]|\\x\{", whole[0]):
            raise ValueError(f"the class at position {self.at + 1}")
        self.at = whole.end()
        return re.sub(r"--|~~|\|\|", lambda marks: f"{marks[0][0]}\\{marks[0][1]}", whole[0])

    def _dot(self) -> str:
        self.at += 1
        return "." if "s" in self.flags else f"[^{_LINE_ENDS}]"

    def _dollar(self) -> str:
        self.at += 1
        return "$" if "m" in self.flags else _AT_THE_END

    def _group(self) -> str:
        named = re.compile(r"\(\?<(?![=!])").match(self.pattern, self.at)
        self.at += len(named[0]) if named else 1
        return "(?P<" if named else "("


_PARTS: Mapping[str, Callable[[_Rewriting], str]] = MappingProxyType(
    {
        "\\": _Rewriting._escape,
        "[": _Rewriting._class,
        ".": _Rewriting._dot,
        "$": _Rewriting._dollar,
        "(": _Rewriting._group,
    }
)
