"""Words of a text that is being written: unlike the tokenizer, this scanner accepts open quotes and comments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ds_dagster.names import fold

_WORD = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>'(?:[^']|'')*(?:'|\Z))
    |(?P<quoted>"(?:[^"]|"")*(?:"|\Z)|`[^`]*(?:`|\Z))
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>\S)""",
    re.VERBOSE | re.DOTALL,
)
QUOTES = "'\"`"


@dataclass(frozen=True, slots=True)
class Word:
    """A part of a text.

    Attributes:
        kind: ``name`` (keywords too), ``quoted`` (a name in quotes), ``text`` (in single quotes), ``comment``, or
            ``sign`` (digits, operators, brackets; one character each).
        written: as in the text.
        start, end: offsets; ``end`` is behind the last character.
    """

    kind: str
    written: str
    start: int
    end: int

    @property
    def value(self) -> str:
        """A name as the dialect folds it, a text without its quotes, anything else as written."""
        if self.kind == "name":
            return fold(self.written)
        if self.kind not in ("quoted", "text"):
            return self.written
        quote = self.written[0]
        inside = self.written[1:-1] if self.is_closed else self.written[1:]
        return inside.replace(quote * 2, quote)

    @property
    def is_closed(self) -> bool:
        """Whether a quoted text or name ends."""
        return len(self.written) > 1 and self.written[-1] == self.written[0]

    @property
    def is_name(self) -> bool:
        """Whether it may name a thing."""
        return self.kind in ("name", "quoted")


def words_of(text: str) -> tuple[Word, ...]:
    """All words of a text, comments included."""
    return tuple(
        Word(str(match.lastgroup), match[0], match.start(), match.end())
        for match in _WORD.finditer(text)
        if match.lastgroup
    )


def statement_at(words: Sequence[Word], offset: int) -> tuple[Word, ...]:
    """The words, without comments, of the statement that contains an offset; between two statements: of the second."""
    first, last = 0, len(words)
    for place, word in enumerate(words):
        if word.kind == "sign" and word.written == ";":
            if word.end <= offset:
                first = place + 1
            else:
                last = place
                break
    return tuple(word for word in words[first:last] if word.kind != "comment")


def path_at(words: Sequence[Word], offset: int) -> tuple[Word, ...]:
    """The names around an offset that dots connect, up to the name at the offset: of ``a.b.c`` the parts ``a``, ``b``
    with the offset in ``b``; empty where there is no name."""
    place = next((i for i, word in enumerate(words) if word.is_name and word.start <= offset <= word.end), None)
    if place is None:
        return ()
    path = [words[place]]
    while place >= 2 and words[place - 1].written == "." and words[place - 2].is_name:
        place -= 2
        path.insert(0, words[place])
    return tuple(path)
