"""Brackets that are never closed: the mistake is reported at the bracket, not at the token that does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.hints.mistakes import Mistake

BEHIND = frozenset(("SYNTAX_EXPECTED", "SYNTAX_UNEXPECTED", "COLUMN_CONSTRAINT_UNSUPPORTED"))
"""Conditions that a bracket without its closing bracket may cause later in the text."""


def unclosed(tokens: Sequence[Token], refused: Mistake) -> Mistake | None:
    """The mistake at the innermost open bracket before a refusal; None if there is none or it is not the cause."""
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
    place = f"before {word.upper()}" if word.isidentifier() else "where its list ends"
    params = {"place": place}
    return Mistake(refused.source, left[-1].start, left[-1].end + 1, "BRACKET_OPEN", params, (refused.span,))
