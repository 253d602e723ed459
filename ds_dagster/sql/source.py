"""The text of one file, its tokens and their positions.

One pass of the dialect's tokenizer makes the tokens and folds unquoted words to lower case. Each token then gets the
line and column of its first character, both counted from 1.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.diagnostics import Span
from ds_dagster.sql.tokens import DeltaStreamTokenizer

TYPOGRAPHIC = "’‘“”"
_PLAIN = {"’": "'", "‘": "'", "“": '"', "”": '"'}
_QUOTED_RUN = re.compile(
    r"""--[^\r\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|[’‘][^'’‘\n]*['’‘]|[“”][^"“”\n]*["“”]""", re.DOTALL
)
_LINE_RUN = re.compile(r"""--[^\r\n]*|/\*.*?\*/|'(?:[^'\n]|'')*'|"(?:[^"\n]|"")*"|`[^`\n]*`|[;'"`]|/\*""", re.DOTALL)
_COMMENTS = re.compile(r"--[^\r\n]*|/\*.*?\*/|/\*", re.DOTALL)
_CLOSING = {"'": "'", '"': '"', "`": "`", "/*": "*/"}
_SENSITIVE = re.compile(
    r"(?i)(password|secret|token|passphrase|private|credential|api.?key|access_key|key\.pem|client\.key|jaas)[^=\n]*=\s*"
)


@dataclass(frozen=True, slots=True)
class SourceText:
    """Text of a file and the offsets of its lines (``line_starts``). ``path`` is shown in spans."""

    path: str
    text: str
    line_starts: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        object.__setattr__(self, "line_starts", tuple(starts))

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at an offset, both from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """Span from the character at ``start`` to the character before ``end``."""
        line, column = self.place(start)
        end_line, end_column = self.place(end)
        return Span(self.path, line, column, end_line, end_column)

    def line_text(self, line: int) -> str:
        """One line for a diagnostic, without the value of a secret property."""
        start = self.line_starts[line - 1]
        stop = self.text.find("\n", start)
        shown = self.text[start : stop if stop >= 0 else len(self.text)].rstrip("\r")
        secret = _SENSITIVE.search(shown)
        return shown[: secret.end()] + "…" if secret else shown


@dataclass(frozen=True, slots=True)
class Typographic:
    """A typographic quote that was read as a plain one."""

    offset: int
    character: str
    plain: str


@dataclass(frozen=True, slots=True)
class LexicalMistake:
    """A quote or comment that is never closed."""

    offset: int
    what: str
    closing: str

    @property
    def advice(self) -> str:
        """What closes it; for a single quote also how to write a quote inside a text."""
        return f"{self.closing}, and write '' for one inside the text" if self.closing == "'" else self.closing


@dataclass(frozen=True, slots=True)
class Piece:
    """The tokens of one statement, without its semicolon. ``gap`` is the offset after the previous semicolon, where the
    statement's comments begin."""

    tokens: tuple[Token, ...]
    gap: int
    mistake: LexicalMistake | None = None

    @property
    def start(self) -> int:
        """Offset of the first character."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.tokens[-1].end + 1


def plain_quotes(text: str) -> tuple[str, tuple[Typographic, ...]]:
    """Replace pairs of typographic quotes by plain ones, outside of ordinary quotes and comments. Offsets do not
    change."""
    if not any(character in text for character in TYPOGRAPHIC):
        return text, ()
    quotes: list[Typographic] = []

    def replace(match: re.Match[str]) -> str:
        run = match.group()
        plain = _PLAIN.get(run[0])
        if plain is None:
            return run
        quotes.append(Typographic(match.start(), run[0], plain))
        return plain + run[1:-1] + plain

    return _QUOTED_RUN.sub(replace, text), tuple(quotes)


def split(source: SourceText) -> list[Piece]:
    """Tokens of a file, in pieces of one statement each. A lexical mistake affects only its own piece."""
    try:
        tokens = DeltaStreamTokenizer().tokenize(source.text)
    except TokenError:
        return _split_by_lines(source)
    tail = tokens[-1].end + 1 if tokens else 0
    if _open_comment(source.text, tail) is not None:
        return _split_by_lines(source)
    _place(tokens, source)
    return _pieces(tokens)


def _place(tokens: list[Token], source: SourceText, offset: int = 0) -> None:
    starts = source.line_starts
    for token in tokens:
        if offset:
            token.start += offset
            token.end += offset
        line = bisect_right(starts, token.start)
        token.line = line
        token.col = token.start - starts[line - 1] + 1


def _pieces(tokens: list[Token]) -> list[Piece]:
    pieces: list[Piece] = []
    gap = 0
    begin = 0
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.SEMICOLON:
            if index > begin:
                pieces.append(Piece(tuple(tokens[begin:index]), gap))
            begin, gap = index + 1, token.end + 1
    if begin < len(tokens):
        pieces.append(Piece(tuple(tokens[begin:]), gap))
    return pieces


def _split_by_lines(source: SourceText) -> list[Piece]:
    """Slower, for files with a quote or comment that is never closed: assumes that a quote ends on its line."""
    pieces: list[Piece] = []
    begin = 0
    stops = [match.start() for match in _LINE_RUN.finditer(source.text) if match.group() == ";"]
    for stop in [*stops, len(source.text)]:
        piece = _lex_piece(source, begin, stop)
        if piece:
            pieces.append(piece)
        begin = stop + 1
    return pieces


def _lex_piece(source: SourceText, begin: int, stop: int) -> Piece | None:
    text = source.text[begin:stop]
    mistake = _mistake(text, begin)
    if mistake:
        text = text[: mistake.offset - begin]
    tokens = DeltaStreamTokenizer().tokenize(text)
    _place(tokens, source, begin)
    if mistake and not tokens:
        tokens = [Token(TokenType.BREAK, "", *source.place(mistake.offset), mistake.offset, mistake.offset)]
    return Piece(tuple(tokens), begin, mistake) if tokens else None


def _mistake(text: str, begin: int) -> LexicalMistake | None:
    try:
        tokens = DeltaStreamTokenizer().tokenize(text)
    except TokenError:
        for match in _LINE_RUN.finditer(text):
            sign = match.group()
            if sign in _CLOSING:
                what = "the comment" if sign == "/*" else "the quote"
                return LexicalMistake(begin + match.start(), what, _CLOSING[sign])
        return LexicalMistake(begin, "a quote", "a quote")
    opened = _open_comment(text, tokens[-1].end + 1 if tokens else 0)
    return LexicalMistake(begin + opened, "the comment", "*/") if opened is not None else None


def _open_comment(text: str, tail: int) -> int | None:
    """Offset of the ``/*`` after the last token that is never closed; None if there is none."""
    for match in _COMMENTS.finditer(text, tail):
        if match.group() == "/*":
            return match.start()
    return None
