"""Text typed into ``ds sql`` or read from a script → statement records, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import TokenType

from ds_dagster.sql.application_script import begins
from ds_dagster.sql.commands import Command, DescribeStatement
from ds_dagster.sql.dialect import new_parser
from ds_dagster.sql.grammar.command import CommandParser
from ds_dagster.sql.hints.mistakes import Mistake, UnreadableError
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.source import Piece, SourceText, plain_quotes, split
from ds_dagster.sql.statements import Comment, Context, Origin, Statement
from ds_dagster.sql.tokens import DeltaStreamTokenizer

BEGINNING, ENDING = ("begin", "application"), ("end", "application")
DESCRIBED = ("describe", *BEGINNING)


def parse_commands(path: str, text: str) -> Iterator[Command | Statement]:
    """Read statements lazily, so that statements before a mistake can be executed.

    The records have an empty context: the shell has a context of its own, which USE changes.

    Raises:
        DsError: the first mistake of the next statement.
    """
    plain, _ = plain_quotes(" " + text[1:] if text.startswith("\ufeff") else text)
    source = SourceText(path, plain)
    parser = new_parser(CommandParser)
    pieces = iter(split(source))
    for piece in pieces:
        if begins(piece, *DESCRIBED):
            yield _described(source, piece, pieces)
        elif begins(piece, *BEGINNING):
            yield _application(source, piece.tokens[0].start, _last(pieces))
        else:
            yield _one(parser, source, piece)


def _described(source: SourceText, first: Piece, others: Iterator[Piece]) -> DescribeStatement:
    """DESCRIBE BEGIN APPLICATION … END APPLICATION."""
    last = _last(others)
    end = len(source.text) if last is None else last.end
    origin = Origin(source.span(first.start, end), source.text[first.start : end], Comment(), Context())
    return DescribeStatement(origin=origin, statement=_application(source, first.tokens[1].start, last))


def _last(pieces: Iterator[Piece]) -> Piece | None:
    """The piece with END APPLICATION; None if there is none. Each statement inside the application is a piece too."""
    return next((piece for piece in pieces if begins(piece, *ENDING)), None)


def _application(source: SourceText, start: int, last: Piece | None) -> Statement:
    """The application from offset ``start`` on; the text before it is replaced by blanks, so that spans are right."""
    end = len(source.text) if last is None else last.end
    before = "".join("\n" if character == "\n" else " " for character in source.text[:start])
    return parse_statement(before + source.text[start:end], source.path)


def _one(parser: CommandParser, source: SourceText, piece: Piece) -> Command | Statement:
    if piece.mistake is not None:
        mistake = piece.mistake
        params = {"what": mistake.what, "closing": mistake.advice}
        raise Mistake(source, mistake.offset, mistake.offset + 1, "SYNTAX_UNTERMINATED", params).exception()
    text = source.text[piece.start : piece.end]
    parser.begin(source, piece.tokens)
    try:
        parsed = parser.command(Origin(source.span(piece.start, piece.end), text, Comment(), Context()))
    except UnreadableError as refusal:
        raise refusal.mistake.exception() from None
    errors = [note for note in parser.notes if note.severity == "error"]
    if errors:
        raise errors[0].exception()
    return parsed


def is_complete(text: str) -> bool:
    """Whether a typed text can be executed: it is empty, or its last statement ends with a semicolon outside of quotes
    and comments."""
    plain, _ = plain_quotes(text)
    pieces = split(SourceText("<input>", plain))
    if not pieces:
        return True
    if pieces[-1].mistake is not None or _is_open(pieces):
        return False
    tokens = DeltaStreamTokenizer().tokenize(plain)
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


def _is_open(pieces: Sequence[Piece]) -> bool:
    """Whether BEGIN APPLICATION has no END yet: a semicolon inside ends a statement, not the application."""
    is_open = False
    for piece in pieces:
        is_open = not begins(piece, *ENDING) and (is_open or begins(piece, *BEGINNING) or begins(piece, *DESCRIBED))
    return is_open
