"""Entry point: the text of a file → the formatted text, or an error if the result might have another meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.errors import ProjectError, error
from ds_dagster.sql.column_comments import column_comments
from ds_dagster.sql.formatting.layout import STEP, Layout
from ds_dagster.sql.formatting.pieces import CommentText, Gap, Statement, brackets, gap_of, without_comments
from ds_dagster.sql.formatting.spacing import blanks
from ds_dagster.sql.formatting.words import angles, printed
from ds_dagster.sql.printing import print_statement
from ds_dagster.sql.script import parse_file
from ds_dagster.sql.source import plain_quotes
from ds_dagster.sql.statements import Application, CreateRelation, Interactive, ParsedFile
from ds_dagster.sql.tokens import DeltaStreamTokenizer

BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class _LexedFile:
    """Tokens of a file, their original texts, and the gaps before each token and after the last one.

    Attributes:
        line_end: CRLF if any line ends with CRLF outside of quoted texts and comments (whose line ends do not change);
            otherwise LF.
    """

    tokens: Sequence[Token]
    texts: Sequence[str]
    gaps: Sequence[Gap]
    line_end: str


def formatted(path: str, text: str) -> str:
    """The formatted text of a file: keywords in upper case, each clause on its own line, comments in their places.

    Args:
        path: shown in messages.
        text: text of the file.

    Raises:
        ProjectError: the file has mistakes.
        InternalError: the formatted text would have another meaning.
    """
    before = parse_file(path, text)
    if before.broken or any(mistake.severity == "error" for mistake in before.diagnostics):
        raise ProjectError([mistake for mistake in before.diagnostics if mistake.severity == "error"])
    own = text.removeprefix(BOM)
    laid_out = _laid_out(own)
    _check(path, own, laid_out)
    return BOM * text.startswith(BOM) + laid_out


def _lexed(text: str) -> _LexedFile:
    plain, _ = plain_quotes(text)
    tokens = DeltaStreamTokenizer().tokenize(plain)
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(text)]
    between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    gaps = [gap_of(gap, begins_file=not place) for place, gap in enumerate(between)]
    line_end = "\r\n" if any("\r\n" in without_comments(gap) for gap in between) else "\n"
    return _LexedFile(tokens, [text[token.start : token.end + 1] for token in tokens], gaps, line_end)


def _laid_out(text: str) -> str:
    file = _lexed(text)
    lines: list[str] = []
    depth = 0
    for first, last in _statements(file.tokens):
        words = [token.text for token in file.tokens[first : first + 2]]
        depth = 0 if words == ["end", "application"] else depth
        gaps = list(file.gaps[first:last])
        beside, gaps[0] = _beside(gaps[0]) if first else (Gap(), gaps[0])
        _append(lines, beside)
        _above(lines, gaps[0], depth, is_first=not first)
        lines += _lines(file, first, last, [Gap(), *gaps[1:]], depth)
        depth = STEP if words == ["begin", "application"] else depth
    beside, rest = _beside(file.gaps[-1]) if file.tokens else (Gap(), file.gaps[-1])
    _append(lines, beside)
    _above(lines, replace(rest, blank=False), 0, is_first=not file.tokens)
    return "".join(line + file.line_end for line in lines)


def _statements(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    begin = 0
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.SEMICOLON:
            yield begin, place + 1
            begin = place + 1
    if begin < len(tokens):
        yield begin, len(tokens)


def _beside(gap: Gap) -> tuple[Gap, Gap]:
    """Comments on the line of the previous token, and the rest of the gap."""
    count = next((place for place, comment in enumerate(gap.comments) if comment.own_line), len(gap.comments))
    return Gap(gap.comments[:count]), Gap(gap.comments[count:], gap.blank)


def _append(lines: list[str], beside: Gap) -> None:
    for comment in beside.comments:
        lines[-1] += f"  {comment.text}"


def _above(lines: list[str], gap: Gap, depth: int, *, is_first: bool) -> None:
    """Comments above a statement, with the empty lines between them."""
    for comment in gap.comments:
        if comment.blank and not (is_first and not lines):
            lines.append("")
        if comment.own_line or not lines:
            lines.append(" " * depth + comment.text)
        else:
            lines[-1] += f" {comment.text}"
    if gap.blank and lines:
        lines.append("")


def _lines(file: _LexedFile, first: int, last: int, gaps: Sequence[Gap], depth: int) -> list[str]:
    """The lines of one statement."""
    tokens = file.tokens[first:last]
    originals = [_has_blank(file.tokens, place) for place in range(first, last)]
    texts = printed(tokens, file.texts[first:last])
    spaced = blanks(tokens, originals)
    breaks = Layout(Statement(tokens, texts, gaps, {**brackets(tokens), **dict(angles(tokens))}), spaced, depth).breaks
    lines, indent = [" " * depth], depth
    for place, text in enumerate(texts):
        begins = place in breaks
        indent = breaks.get(place, indent)
        continued = indent if begins else indent + STEP
        ended = False
        for comment in gaps[place].comments:
            _add_comment(lines, comment, continued)
            ended |= comment.ends_line
        if begins or ended:
            lines.append(" " * continued + text)
        else:
            lines[-1] += " " * bool(place and (spaced[place] or gaps[place].comments)) + text
    return [line.rstrip() if "\n" not in line else line for line in lines]


def _has_blank(tokens: Sequence[Token], place: int) -> bool:
    return place > 0 and tokens[place].start > tokens[place - 1].end + 1


def _add_comment(lines: list[str], comment: CommentText, indent: int) -> None:
    """Print a comment inside of a statement."""
    if comment.own_line:
        lines.append(" " * indent + comment.text)
    else:
        lines[-1] += ("  " if comment.text.startswith("--") else " ") + comment.text


def _check(path: str, before: str, after: str) -> None:
    """Refuse a result whose tokens, comments or statements differ from the original.

    Raises:
        InternalError: INTERNAL.
    """
    try:
        same = _identity(_lexed(before)) == _identity(_lexed(after))
    except TokenError:
        same = False
    if not same or _meaning(parse_file(path, before)) != _meaning(parse_file(path, after)):
        raise error("INTERNAL", where=f"the layout of {path}, which stays as it is")


def _identity(file: _LexedFile) -> list[tuple[object, ...]]:
    """Tokens with their texts (words folded), and comments with the token they precede."""
    gaps = [[(comment.text, comment.own_line) for comment in gap.comments] for gap in file.gaps]
    texts = [
        token.text if token.token_type is TokenType.VAR else text
        for token, text in zip(file.tokens, file.texts, strict=True)
    ]
    return [*zip((token.token_type for token in file.tokens), texts, gaps[:-1], strict=True), (gaps[-1],)]


def _meaning(file: ParsedFile) -> list[object]:
    """Statements with their comments and the comments on their columns."""
    meaning: list[object] = [diagnostic.condition for diagnostic in file.diagnostics]
    for statement in file.statements:
        inner = statement.statements if isinstance(statement, Application) else (statement,)
        for part in (statement, *inner):
            columns = part.columns if isinstance(part, CreateRelation) else ()
            comments = column_comments(part.origin, [(column.name, column.span) for column in columns])
            is_text = isinstance(part, Interactive) and part.body is None
            meaning.append((part.what if is_text else print_statement(part), part.origin.comment, dict(comments)))
    return meaning
