"""BEGIN APPLICATION … END APPLICATION: reads several pieces of a file as one statement. One mistake inside refuses all
of it."""

from __future__ import annotations

from ds_dagster.sql.hints.mistakes import Mistake, UnreadableError
from ds_dagster.sql.parser import DeltaStreamParser
from ds_dagster.sql.source import Piece, SourceText
from ds_dagster.sql.statements import (
    Application,
    BrokenStatement,
    Comment,
    Context,
    CreateAsSelect,
    CreateRelation,
    InsertInto,
    Origin,
    Property,
    Statement,
    Use,
    WrittenName,
)

Inner = CreateRelation | CreateAsSelect | InsertInto | Use


class OpenApplication:
    """An application whose END has not been read yet.

    Attributes:
        piece: piece with BEGIN APPLICATION.
        context: context before the application, restored at its end: a USE inside is valid to END APPLICATION.
        comment: comment above BEGIN APPLICATION.
        name: None if it could not be read.
        inner: valid statements, each with its piece.
        mistakes: all mistakes inside.
        broken: statements with a mistake.
    """

    def __init__(self, piece: Piece, context: Context, comment: Comment) -> None:
        self.piece = piece
        self.context = context
        self.comment = comment
        self.name: WrittenName | None = None
        self.inner: list[tuple[Inner, Piece]] = []
        self.mistakes: list[Mistake] = []
        self.broken: list[BrokenStatement] = []

    @property
    def shown(self) -> str:
        """The folded name; empty if it could not be read."""
        return str(self.name or "")


def begins(piece: Piece, *words: str) -> bool:
    """Whether a piece begins with these words."""
    return tuple(token.text for token in piece.tokens[: len(words)]) == words


def opened(
    parser: DeltaStreamParser, source: SourceText, piece: Piece, context: Context, comment: Comment
) -> tuple[OpenApplication, Piece | None]:
    """A new application, and its first statement if that is in the same piece (no semicolon follows the name)."""
    application = OpenApplication(piece, context, comment)
    parser.begin(source, piece.tokens)
    try:
        parser.need("begin", "application")
        application.name = parser.simple_name("an application's name")
    except UnreadableError as refusal:
        application.mistakes.append(refusal.mistake)
        return application, None
    rest = piece.tokens[3:]
    return application, Piece(rest, piece.tokens[2].end + 1, piece.mistake) if rest else None


def added(application: OpenApplication, source: SourceText, statement: Statement, piece: Piece) -> None:
    """Add a valid statement to its application, or note that an application cannot contain it."""
    if isinstance(statement, CreateRelation | CreateAsSelect | InsertInto | Use):
        application.inner.append((statement, piece))
        return
    words = " ".join(token.text for token in piece.tokens[:2]).upper()
    application.mistakes.append(_at(source, piece, "APPLICATION_STATEMENT", statement=words))
    application.broken.append(BrokenStatement(statement.origin, "APPLICATION_STATEMENT"))


def closed(
    parser: DeltaStreamParser, source: SourceText, application: OpenApplication, piece: Piece | None
) -> Application | None:
    """The statement of a whole application; None if it has mistakes, which are then in ``application``.

    Args:
        parser: parser of the file.
        source: text of the file.
        application: the application that ends.
        piece: piece with END APPLICATION; None if the file ends without it.
    """
    properties = _properties(parser, source, application, piece)
    if not application.mistakes and not any(_is_query(statement) for statement, _ in application.inner):
        application.mistakes.append(_at(source, application.piece, "APPLICATION_EMPTY", name=application.shown))
    last = application.piece if piece is None else piece
    start = application.piece.start
    text = source.text[start : last.end]
    origin = Origin(source.span(start, last.end), text, application.comment, application.context, application.shown)
    if not application.mistakes and application.name is not None:
        inner = tuple(statement for statement, _ in application.inner)
        return Application(origin=origin, name=application.name, statements=inner, properties=properties)
    if not application.broken:
        application.broken.append(BrokenStatement(origin, application.mistakes[0].condition))
    _refuse_the_rest(source, application)
    return None


def _properties(
    parser: DeltaStreamParser, source: SourceText, application: OpenApplication, piece: Piece | None
) -> tuple[Property, ...]:
    if piece is None:
        if not application.mistakes:
            problem = _at(source, application.piece, "APPLICATION_WITHOUT_END", name=application.shown)
            application.mistakes.append(problem)
        return ()
    parser.begin(source, piece.tokens)
    try:
        parser.need("end", "application")
        properties = parser.with_properties() if parser.at("with") else ()
        parser.nothing_left()
    except UnreadableError as refusal:
        application.mistakes.append(refusal.mistake)
        return ()
    application.mistakes.extend(parser.notes)
    return properties


def _is_query(statement: Inner) -> bool:
    return isinstance(statement, InsertInto) or (isinstance(statement, CreateAsSelect) and not statement.virtual)


def _refuse_the_rest(source: SourceText, application: OpenApplication) -> None:
    """Refuse the valid statements too: an application runs as a whole or not at all."""
    first = application.mistakes[0]
    for statement, piece in application.inner:
        if isinstance(statement, Use) or (isinstance(statement, CreateAsSelect) and statement.virtual):
            continue
        name = statement.target if isinstance(statement, InsertInto) else statement.name
        params = {"name": application.shown, "relation": name, "other": first.span}
        mistake = _at(source, piece, "APPLICATION_REFUSED", caused_by=application.shown, **params)
        application.mistakes.append(mistake)
        kind = None if isinstance(statement, InsertInto) else statement.kind
        application.broken.append(BrokenStatement(statement.origin, mistake.condition, kind, name))


def _at(source: SourceText, piece: Piece, condition: str, *, caused_by: str = "", **params: object) -> Mistake:
    first = piece.tokens[0]
    return Mistake(source, first.start, first.end + 1, condition, params, caused_by=caused_by)
