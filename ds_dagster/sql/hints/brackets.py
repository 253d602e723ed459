"""Brackets that are never closed: the place of the mistake is the bracket, not where the text no longer fits."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.hints.mistakes import Mistake

BEHIND = frozenset(("SYNTAX_EXPECTED", "SYNTAX_UNEXPECTED", "COLUMN_CONSTRAINT_UNSUPPORTED"))
"""What a text is called after a bracket that is not closed."""


def unclosed(tokens: Sequence[Token], refused: Mistake) -> Mistake | None:
    """The innermost bracket before a refusal that nothing in the statement closes; None where there is none."""
    opened: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token)
        elif token.token_type is TokenType.R_PAREN and opened:
            opened.pop()
    left = [token for token in opened if token.start < refused.start]
    if not left or refused.condition not in BEHIND:
        return None
    word = refused.source.text[refused.start : refused.end].strip()
    place = f"in front of {word.upper()}" if word.isidentifier() else "where its list ends"
    params = {"place": place}
    return Mistake(refused.source, left[-1].start, left[-1].end + 1, "BRACKET_OPEN", params, (refused.span,))
