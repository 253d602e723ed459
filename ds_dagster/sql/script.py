"""Files and texts → statement records. The entry point of the package ``sql``.

:func:`parse_file` does not raise for mistakes in the SQL: it reports all mistakes of a file and continues with the next
statement. The other functions read one statement, SELECT or type and raise its first mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot.tokenizer_core import Token

from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.sql.application_script import OpenApplication, added, begins, closed, opened
from ds_dagster.sql.comments import comment_above
from ds_dagster.sql.dialect import new_parser
from ds_dagster.sql.hints.brackets import unclosed
from ds_dagster.sql.hints.idioms import idiom
from ds_dagster.sql.hints.mistakes import Mistake, UnreadableError
from ds_dagster.sql.hints.rewriting import rewritten
from ds_dagster.sql.parser import DeltaStreamParser
from ds_dagster.sql.source import Piece, SourceText, plain_quotes, split
from ds_dagster.sql.statements import (
    BrokenStatement,
    Comment,
    Context,
    Origin,
    ParsedFile,
    SelectBody,
    Statement,
    Use,
)

T = TypeVar("T")


@dataclass(slots=True)
class _File:
    """Statements and mistakes read from a file so far."""

    source: SourceText
    context: Context = field(default_factory=Context)
    statements: list[Statement] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    broken: list[BrokenStatement] = field(default_factory=list)
    application: OpenApplication | None = None
    inside: str = ""


def parse_file(path: str, text: str, context: Context | None = None, *, declares_views: bool = False) -> ParsedFile:
    """Read all statements of a file.

    Args:
        path: shown in spans (relative to the project where possible).
        text: text of the file.
        context: context of the first statement; empty by default.
        declares_views: whether CREATE MATERIALIZED VIEW may have columns instead of a SELECT, as in the slice of a job
            that reads a view another query fills.
    """
    file = _read_file(path, text, context, declares_views=declares_views)
    file.mistakes.sort(key=lambda mistake: mistake.start)
    diagnostics = tuple(mistake.diagnostic() for mistake in file.mistakes)
    return ParsedFile(path, tuple(file.statements), diagnostics, tuple(file.broken))


def parse_statement(text: str, path: str = "<statement>", application: str = "") -> Statement:
    """Read one statement; a semicolon after it is allowed.

    Args:
        text: text of the statement.
        path: shown in spans.
        application: name of the application the statement is in; empty if it is in none.

    Raises:
        DsError: the first mistake.
    """
    file = _read_file(path, text, inside=application)
    for mistake in file.mistakes:
        if mistake.severity == "error":
            raise mistake.exception()
    if len(file.statements) != 1:
        count, fix = len(file.statements), "write one statement at a time"
        raise error("SYNTAX_EXPECTED", span=Span(path, 1), expected="one statement", found=count, fix=fix)
    return file.statements[0]


def parse_select(text: str, path: str = "<query>") -> SelectBody:
    """Read one SELECT of ``ds query``: ORDER BY, LIMIT, OFFSET and VALUES are allowed.

    Raises:
        DsError: the first mistake.
    """
    return _one(text, path, DeltaStreamParser.select_body)


def parse_type(text: str, path: str = "<type>") -> DataType:
    """Read the text of a type: ``STRUCT<phone VARCHAR, zip INTEGER>``.

    Raises:
        DsError: the first mistake.
    """
    return _one(text, path, DeltaStreamParser.data_type)


def _one(text: str, path: str, read: Callable[[DeltaStreamParser], T]) -> T:
    file = _open(path, text)
    pieces = split(file.source)
    if len(pieces) != 1:
        raise error(
            "SYNTAX_EXPECTED",
            span=Span(path, 1),
            expected="one statement",
            found=len(pieces),
            fix="write exactly one, without a ; inside",
        )
    lexical = _lexical(file.source, pieces[0])
    if lexical:
        raise lexical.exception()
    parser = _parser()
    parser.begin(file.source, pieces[0].tokens)
    try:
        parsed = read(parser)
        parser.nothing_left()
    except UnreadableError as refusal:
        raise refusal.mistake.exception() from None
    wrong = next((note for note in parser.notes if note.severity == "error"), None)
    if wrong is not None:
        raise wrong.exception()
    return parsed


def _parser() -> DeltaStreamParser:
    return new_parser(DeltaStreamParser)


def _open(path: str, text: str) -> _File:
    plain, typographic = plain_quotes(" " + text[1:] if text.startswith("\ufeff") else text)
    source = SourceText(path, plain)
    warnings = [
        Mistake(
            source,
            quote.offset,
            quote.offset + 1,
            "TYPOGRAPHIC_QUOTE",
            {"character": quote.character, "plain": quote.plain},
            severity="warning",
        )
        for quote in typographic
    ]
    return _File(source, mistakes=warnings)


def _read_file(
    path: str, text: str, context: Context | None = None, inside: str = "", *, declares_views: bool = False
) -> _File:
    file = _open(path, text)
    file.inside = inside
    file.context = context or Context()
    parser = _parser()
    parser.declares_views = declares_views
    for piece in split(file.source):
        if begins(piece, "begin", "application"):
            _begin(parser, file, piece)
        elif file.application is not None and begins(piece, "end", "application"):
            _end(parser, file, piece)
        else:
            _read(parser, file, piece)
    if file.application is not None:
        _end(parser, file, None)
    return file


def _begin(parser: DeltaStreamParser, file: _File, piece: Piece) -> None:
    if file.application is not None:
        first = piece.tokens[0]
        params = {"name": file.application.shown}
        nested = Mistake(file.source, first.start, first.end + 1, "APPLICATION_NESTED", params)
        file.application.mistakes.append(nested)
        return
    file.application, rest = opened(parser, file.source, piece, file.context, _comment(file, piece))
    if rest is not None and begins(rest, "end", "application"):
        _end(parser, file, rest)
    elif rest is not None:
        _read(parser, file, rest)


def _end(parser: DeltaStreamParser, file: _File, piece: Piece | None) -> None:
    application = file.application
    assert application is not None
    statement = closed(parser, file.source, application, piece)
    if statement is not None:
        file.statements.append(statement)
    file.mistakes.extend(application.mistakes)
    file.broken.extend(application.broken)
    file.context, file.application = application.context, None


def _read(parser: DeltaStreamParser, file: _File, piece: Piece) -> None:
    source, application = file.source, file.application
    comment = _comment(file, piece)
    text = source.text[piece.start : piece.end]
    inside = file.inside if application is None else application.shown
    origin = Origin(source.span(piece.start, piece.end), text, comment, file.context, inside)
    parser.begin(source, piece.tokens)
    statement: Statement | None = None
    mistakes: list[Mistake] = []
    try:
        statement = parser.statement(origin)
    except UnreadableError as refusal:
        wrong = refusal.mistake
        mistakes = [_of_other_dialect(source, piece.tokens) or unclosed(piece.tokens, wrong) or wrong]
    lexical = _lexical(source, piece)
    mistakes = [lexical] if lexical else [*parser.notes, *mistakes]
    target = file if application is None else application
    target.mistakes.extend(mistakes)
    mistakes = [mistake for mistake in mistakes if mistake.severity == "error"]
    if mistakes or statement is None:
        target.broken.append(BrokenStatement(origin, mistakes[0].condition, parser.kind, parser.name))
        return
    if application is None:
        file.statements.append(statement)
    else:
        added(application, source, statement, piece)
    if isinstance(statement, Use):
        file.context = _used(file.context, statement)


def _of_other_dialect(source: SourceText, tokens: Sequence[Token]) -> Mistake | None:
    match = idiom(tokens)
    if match is None:
        return None
    first, last, fix = match
    own = rewritten(source, tokens)
    if own and _is_read(own):
        fix = f"{fix}. This statement: {own}"
    params = {"shown": source.text[first.start : last.end + 1], "fix": fix}
    return Mistake(source, first.start, last.end + 1, "SYNTAX_OF_OTHER_DIALECT", params)


def _is_read(text: str) -> bool:
    """Whether a text is one statement that can be read."""
    source = SourceText("<rewritten>", text)
    pieces = split(source)
    parser = _parser()
    try:
        for piece in pieces:
            parser.begin(source, piece.tokens)
            parser.statement(Origin(source.span(piece.start, piece.end), text))
    except UnreadableError:
        return False
    return len(pieces) == 1 and not any(note.severity == "error" for note in parser.notes)


def _comment(file: _File, piece: Piece) -> Comment:
    comment, remarks = comment_above(file.source, piece.gap, piece.start)
    file.mistakes.extend(
        Mistake(file.source, remark.offset, remark.offset + 1, remark.condition, remark.params, severity="warning")
        for remark in remarks
    )
    return comment


def _lexical(source: SourceText, piece: Piece) -> Mistake | None:
    open_ = piece.mistake
    if open_ is None:
        return None
    params = {"what": open_.what, "closing": open_.advice}
    return Mistake(source, open_.offset, open_.offset + 1, "SYNTAX_UNTERMINATED", params)


def _used(context: Context, use: Use) -> Context:
    """The context after a USE. USE DATABASE also selects the default schema of that database."""
    parts = use.name.parts
    if use.what == "database":
        return replace(context, database=parts[0], schema="")
    if use.what == "store":
        return replace(context, store=parts[0])
    return replace(context, schema=parts[-1], database=parts[0] if len(parts) == 2 else context.database)
