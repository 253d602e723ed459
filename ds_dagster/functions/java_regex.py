"""Java's regular expressions, checked without Java: patterns that Java certainly refuses, and the number of groups.

Rules: ``java.util.regex.Pattern`` of Java 17. A form that this module does not support is accepted, so that nothing
valid is refused; a test compares this with Java.
"""

from __future__ import annotations

import re

_PLAIN_ESCAPES = frozenset("aAbBdDeEfGhHnrRsStvVwWXzZ") - {"E"}
_REPETITION = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_ESCAPES_WITH_MORE = {
    "x": re.compile(r"x(?:[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\})"),
    "u": re.compile(r"u[0-9a-fA-F]{4}"),
    "c": re.compile(r"c[\s\S]"),
    "0": re.compile(r"0[0-7]"),
    "p": re.compile(r"p(?:\{[^}]+\}|[^{])"),
    "P": re.compile(r"P(?:\{[^}]+\}|[^{])"),
    "N": re.compile(r"N\{[^}]+\}"),
    "k": re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>"),
}
"""Escape → pattern of the text that has to follow."""
_NAMED = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_SPECIAL = re.compile(r"\(\?(?:[:=!>]|<[=!])")
_FLAGS = re.compile(r"\(\?([idmsuxUc-]*)([:)])")
_MOST_TIMES = 2**31 - 1


class UnsureError(Exception):
    """A form this module does not support: the expression is left to Java."""


class RefusedError(Exception):
    """Java refuses the expression; the text says why."""


class Regex:
    """One expression while it is read. ``groups``: number of capturing groups so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0
        self.names: set[str] = set()
        self.depth = 0

    def read(self) -> None:
        """Read the whole expression. Raises: RefusedError, UnsureError."""
        repeatable = False
        while self.at < len(self.text):
            repeatable = self._part(self.text[self.at], repeatable)
        if self.depth:
            raise RefusedError("a group ( is not closed")

    def _part(self, char: str, repeatable: bool) -> bool:
        """Read one part; returns whether * + ? may follow."""
        if char in "*+?":
            if not repeatable:
                raise RefusedError(f"{char} has nothing to repeat at position {self.at + 1}")
            self._repeated(self.at + 1)
            return False
        if char == "{":
            return self._counted(repeatable)
        if char in "\\[(":
            return {"\\": self._escape, "[": self._class, "(": self._group}[char]()
        if char == ")":
            if not self.depth:
                raise RefusedError("a ) without a group; write \\) for the character")
            self.depth -= 1
        self.at += 1
        return char != "|"

    def _repeated(self, at: int) -> None:
        """After a repetition: ? or + may make it reluctant or possessive."""
        self.at = at + (self.text[at : at + 1] in ("?", "+"))

    def _counted(self, repeatable: bool) -> bool:
        match = _REPETITION.match(self.text, self.at)
        if match is None:
            if self.text[self.at + 1 : self.at + 2].isdecimal() and not repeatable:
                raise UnsureError
            raise RefusedError("a { is not a repetition such as {2} or {2,5}; write \\{ for the character")
        least, most = int(match[1]), int(match[3] or match[1]) if match[3] != "" else _MOST_TIMES
        if least > most or max(least, most) > _MOST_TIMES:
            raise RefusedError(f"{match[0]} is not a valid number of repetitions")
        self._repeated(match.end())
        return False

    def _escape(self) -> bool:
        following = self.text[self.at + 1 : self.at + 2]
        if not following:
            raise RefusedError("it ends with a \\; write \\\\ for the character")
        if following == "Q":
            end = self.text.find("\\E", self.at)
            self.at = len(self.text) if end < 0 else end + 2
            return True
        length = 1
        if following in _ESCAPES_WITH_MORE:
            match = _ESCAPES_WITH_MORE[following].match(self.text, self.at + 1)
            if match is None or (following == "k" and match[1] not in self.names):
                raise RefusedError(f"\\{following} at position {self.at + 1} is not complete")
            length = len(match[0])
        elif following.isascii() and following.isalpha() and following not in _PLAIN_ESCAPES:
            raise RefusedError(f"\\{following} is not an escape")
        self.at += 1 + length
        return True

    def _class(self) -> bool:
        """``[…]``, which may hold other classes."""
        at, open_ = self.at + 1, 1
        at += self.text[at : at + 1] == "^"
        at += self.text[at : at + 1] == "]"
        while at < len(self.text):
            char = self.text[at]
            if char == "\\":
                if self.text[at + 1 : at + 2] == "Q":
                    raise UnsureError
                at += 1
            elif char == "[":
                if self.text[at + 1 : at + 2] in ("]", "^"):
                    raise UnsureError
                open_ += 1
            elif char == "]":
                open_ -= 1
                if not open_:
                    self.at = at + 1
                    return True
            at += 1
        raise RefusedError("a class [ is not closed; write \\[ for the character")

    def _group(self) -> bool:
        named = _NAMED.match(self.text, self.at)
        special = _SPECIAL.match(self.text, self.at)
        flags = _FLAGS.match(self.text, self.at)
        if named is not None:
            if named[1] in self.names:
                raise RefusedError(f"two groups are called {named[1]}")
            self.names.add(named[1])
        elif flags is not None and "x" in flags[1]:
            raise UnsureError
        elif special is None and flags is None and self.text[self.at + 1 : self.at + 2] == "?":
            raise RefusedError(f"(? at position {self.at + 1} does not begin a group")
        match = named or special or flags
        is_flag = flags is not None and flags[2] == ")"
        self.depth += not is_flag
        self.groups += named is not None or match is None
        self.at = match.end() if match else self.at + 1
        return False


def judge(text: str) -> tuple[str, int | None]:
    """Why Java refuses an expression (empty if it does not), and its number of groups (None: not known)."""
    regex = Regex(text)
    try:
        regex.read()
    except RefusedError as refused:
        return str(refused), None
    except UnsureError:
        return "", None
    return "", regex.groups
