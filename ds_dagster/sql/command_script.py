"""Text typed into ``ds sql`` or read from its scripts → records, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokenizer_core import TokenType

from ds_dagster.sql.command_grammar import CommandParser
from ds_dagster.sql.commands import Command
from ds_dagster.sql.dialect import DeltaStream
from ds_dagster.sql.mistakes import Mistake, RefusedError
from ds_dagster.sql.source import Piece, Source, plain_quotes, split
from ds_dagster.sql.statements import Comment, Context, Origin, Statement
from ds_dagster.sql.tokens import DeltaStreamTokenizer


def parse_commands(path: str, text: str) -> Iterator[Command | Statement]:
    """Read statements lazily: what stands before a mistake comes out first.

    The context of the records is empty: a shell keeps its own and USE changes it.

    Raises:
        DsError: what is wrong with the next statement.
    """
    plain, _ = plain_quotes(" " + text[1:] if text.startswith("\ufeff") else text)
    source = Source(path, plain)
    parser = CommandParser(dialect=DeltaStream)
    for piece in split(source):
        yield _one(parser, source, piece)


def _one(parser: CommandParser, source: Source, piece: Piece) -> Command | Statement:
    if piece.mistake is not None:
        found = piece.mistake
        params = {"what": found.what, "closing": found.closing}
        raise Mistake(source, found.offset, found.offset + 1, "SYNTAX_UNTERMINATED", params).exception()
    text = source.text[piece.start : piece.end]
    parser.begin(source, piece.tokens)
    try:
        made = parser.command(Origin(source.span(piece.start, piece.end), text, Comment(), Context()))
    except RefusedError as refusal:
        raise refusal.mistake.exception() from None
    errors = [note for note in parser.notes if note.severity == "error"]
    if errors:
        raise errors[0].exception()
    return made


def is_complete(text: str) -> bool:
    """Whether a typed text can be executed: nothing at all, or statements of which the last one ends with a semicolon
    outside quotes and comments."""
    plain, _ = plain_quotes(text)
    pieces = split(Source("<input>", plain))
    if not pieces:
        return True
    if pieces[-1].mistake is not None:
        return False
    tokens = DeltaStreamTokenizer().tokenize(plain)
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON
