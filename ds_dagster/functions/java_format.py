"""Java's formats (``java.util.Formatter`` of Java 17), checked without Java: PRINTF refuses a format when it is bound.
A test compares this module with Java.

Dates (``%t``), hashes (``%h``) and hexadecimal floats (``%a``) are refused: their texts depend on Java.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ds_dagster.datatypes import FLOATS, DataType, Scalar

_DIRECTIVE = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
MOST_PLACES = 10**7
"""A width or a precision of this many characters or more is refused: the text would exhaust the engine's memory."""
BITS: Mapping[str, int] = MappingProxyType({"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64})
"""Type of a whole number → its bits."""
_FLAGS: Mapping[str, str] = MappingProxyType(
    {"s": "-", "b": "-", "c": "-", "d": "-+ 0,(", "x": "-#0", "o": "-#0", "f": "-#+ 0,(", "e": "-#+ 0(", "g": "-+ 0,(",
     "%": "-", "n": ""}
)  # fmt: skip
"""Conversion → flags it may have."""
_TAKEN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "c": ("TINYINT", "SMALLINT", "INTEGER"),
        **dict.fromkeys("dxo", tuple(BITS)),
        **dict.fromkeys("feg", tuple(sorted(FLOATS))),
    }
)
"""Conversion → types it can show; other conversions show every type."""
_NO_PRECISION = frozenset("cdxo%n")


@dataclass(frozen=True, slots=True)
class Directive:
    """One ``%…`` of a format: ``index`` of its argument, from 0; None for ``%%`` and ``%n``."""

    text: str
    index: int | None
    flags: str
    width: int | None
    precision: int | None
    conversion: str

    @property
    def kind(self) -> str:
        """The conversion in lower case."""
        return self.conversion.lower()

    def reason(self, types: Sequence[DataType | None]) -> str:
        """Why Java refuses it for arguments of these types, empty if it does not."""
        flags = self.flags.replace("<", "")
        if self.kind not in _FLAGS or (self.conversion.isupper() and self.kind in "dofn"):
            return f"{self.text} is not a conversion; use %s, %d, %x, %o, %f, %e, %g, %b, %c, %n or %%"
        wrong = [flag for flag in flags if flag not in _FLAGS[self.kind] or flags.count(flag) > 1]
        if wrong or {"+", " "} <= set(flags) or {"-", "0"} <= set(flags):
            return f"the flags of {self.text} do not fit"
        if (set(flags) & {"-", "0"} and self.width is None) or (self.kind == "n" and self.width is not None):
            return f"the width of {self.text} does not fit its flags"
        if max(self.width or 0, self.precision or 0) >= MOST_PLACES:
            return f"{self.text} is too wide"
        if self.precision is not None and self.kind in _NO_PRECISION:
            return f"{self.text} cannot have a precision"
        return self._reason_of_type(types)

    def _reason_of_type(self, types: Sequence[DataType | None]) -> str:
        if self.index is None:
            return ""
        if not 0 <= self.index < len(types):
            return f"{self.text} has no value"
        type_ = types[self.index]
        taken = _TAKEN.get(self.kind)
        if taken is None or type_ is None or (isinstance(type_, Scalar) and type_.name in taken):
            return ""
        return f"{self.text} cannot show {type_}, only {', '.join(taken)}"


def directives(form: str) -> list[str | Directive]:
    """A format as texts and directives.

    Raises:
        ValueError: a % without a conversion.
    """
    parts: list[str | Directive] = []
    position, ordinary, last = 0, 0, -1
    while position < len(form):
        percent = form.find("%", position)
        parts.append(form[position:] if percent < 0 else form[position:percent])
        if percent < 0:
            break
        match = _DIRECTIVE.match(form, percent)
        if match is None:
            raise ValueError(f"{form[percent : percent + 2]} is not a conversion; write %% for a percent sign")
        number, flags, width, precision, conversion = match.groups()
        index: int | None = None
        if conversion not in "%n":
            index = last if "<" in flags else int(number) - 1 if number and int(number) else ordinary
            ordinary += 0 if "<" in flags or (number and int(number)) else 1
            last = index
        parts.append(Directive(match.group(), index, flags, _size(width), _size(precision), conversion))
        position = match.end()
    return parts


def _size(text: str | None) -> int | None:
    return int(text) if text else None


def judge(form: str, types: Sequence[DataType | None]) -> str:
    """Why Java refuses a format for values of these types (None: a bare NULL), empty if it does not."""
    try:
        reasons = (part.reason(types) for part in directives(form) if isinstance(part, Directive))
        return next((reason for reason in reasons if reason), "")
    except ValueError as problem:
        return str(problem)
