"""A file as the formatter sees it: tokens with the comments before them, statement by statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

_COMMENT = re.compile(r"--[^\r\n]*|/\*.*?\*/", re.DOTALL)
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


@dataclass(frozen=True, slots=True)
class CommentText:
    """A comment.

    Attributes:
        text: text with its comment signs, without blanks after it.
        own_line: whether only comments precede it on its line.
        blank: whether an empty line is above it.
    """

    text: str
    own_line: bool
    blank: bool = False

    @property
    def ends_line(self) -> bool:
        """Whether the next token must begin a new line."""
        return self.own_line or self.text.startswith("--")


@dataclass(frozen=True, slots=True)
class Gap:
    """The text between two tokens: comments, and whether an empty line is above the second token."""

    comments: tuple[CommentText, ...] = ()
    blank: bool = False


def gap_of(text: str, *, begins_file: bool = False) -> Gap:
    """The gap with this text; ``begins_file``: whether no token precedes it."""
    comments: list[CommentText] = []
    end = 0
    for match in _COMMENT.finditer(text):
        before = text[end : match.start()]
        own_line = "\n" in before or (begins_file and not comments) or bool(comments and comments[-1].text[:2] == "--")
        comments.append(CommentText(match.group().rstrip(), own_line, bool(_BLANK_LINE.search(before))))
        end = match.end()
    return Gap(tuple(comments), bool(_BLANK_LINE.search(text[end:])))


def without_comments(text: str) -> str:
    """The text of a gap without its comments."""
    return _COMMENT.sub("", text)


@dataclass(frozen=True, slots=True)
class Statement:
    """The tokens of one statement with its semicolon.

    Attributes:
        tokens: tokens in order.
        texts: printed text of each token.
        gaps: gap before each token.
        closing: index of an opening bracket → index of its closing bracket.
    """

    tokens: Sequence[Token]
    texts: Sequence[str]
    gaps: Sequence[Gap]
    closing: dict[int, int]

    def word(self, place: int) -> str:
        """The folded word at an index; empty for any other token and outside of the statement."""
        if not 0 <= place < len(self.tokens) or self.tokens[place].token_type is not TokenType.VAR:
            return ""
        return self.tokens[place].text

    def kind(self, place: int) -> TokenType | None:
        """The type of the token at an index; None outside of the statement."""
        return self.tokens[place].token_type if 0 <= place < len(self.tokens) else None

    def at(self, place: int, *words: str) -> bool:
        """Whether these words begin at an index."""
        return all(self.word(place + offset) == word for offset, word in enumerate(words))

    def level(self, first: int, last: int) -> Iterator[int]:
        """Indexes from ``first`` to before ``last``, without tokens inside of brackets."""
        place = first
        while place < last:
            yield place
            place = self.closing.get(place, place) + 1

    def split(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges between the commas of this level; a comma belongs to the range before it."""
        ranges, begin = [], first
        for place in self.level(first, last):
            if self.kind(place) is TokenType.COMMA:
                ranges.append((begin, place + 1))
                begin = place + 1
        return [*ranges, (begin, last)] if begin < last else ranges


def brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Index of an opening bracket → index of its closing bracket. Brackets that are not closed are left out."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.token_type in OPENING:
            opened.append(place)
        elif token.token_type in CLOSING and opened:
            closing[opened.pop()] = place
    return closing


def enclosing(tokens: Sequence[Token]) -> list[int]:
    """For each token the index of the opening bracket around it; -1 if there is none."""
    around: list[int] = []
    opened = [-1]
    for place, token in enumerate(tokens):
        if token.token_type in CLOSING and len(opened) > 1:
            opened.pop()
        around.append(opened[-1])
        if token.token_type in OPENING:
            opened.append(place)
    return around
