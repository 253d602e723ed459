"""Forms of other dialects and our forms for them: for hints, when a statement cannot be parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlglot.tokenizer_core import Token, TokenType

IDIOMS: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        ("watermark", "for"): "name the event time in WITH: 'timestamp' = 'column'; rows may be late by "
        "'source.allow.latency.millis'",
        ("for", "system_time", "as", "of"): "leave it out: JOIN changelog ON … finds the version that was valid at the "
        "event time of the row",
        ("for", "system_time"): "leave it out: JOIN changelog ON … finds the version that was valid at the event time",
        ("not", "enforced"): "write PRIMARY KEY (column) as an item of its own, without NOT ENFORCED",
        ("window", "tumbling"): "write FROM TUMBLE(relation, SIZE n unit) … GROUP BY window_start, window_end, …",
        ("window", "hopping"): "write FROM HOP(relation, SIZE n unit, ADVANCE BY n unit) … GROUP BY window_start, "
        "window_end, …",
        ("window", "session"): "write FROM SESSION(relation, GAP n unit) … GROUP BY window_start, window_end, …",
        ("table", "(", "tumble"): "write TUMBLE(relation, SIZE n unit); the event time is 'timestamp' of the relation",
        ("table", "(", "hop"): "write HOP(relation, SIZE n unit, ADVANCE BY n unit); the event time is 'timestamp' of "
        "the relation",
        ("table", "(", "cumulate"): "write CUMULATE(relation, SIZE n unit, STEP n unit); the event time is 'timestamp' "
        "of the relation",
        ("qualify",): "filter outside: SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) AS n "
        "FROM …) q WHERE n = 1",
    }
)
"""First words of a form → what to write instead; the longest match wins."""
LONGEST = max(map(len, IDIOMS))


def idiom(tokens: Sequence[Token]) -> tuple[Token, Token, str] | None:
    """The first form of another dialect in a statement: its first token, its last token, and the hint; None if there is
    none."""
    texts = [token.text.lower() if _is_word(token) else "" for token in tokens]
    for place in range(len(tokens)):
        for length in range(LONGEST, 0, -1):
            fix = IDIOMS.get(tuple(texts[place : place + length])) if place + length <= len(tokens) else None
            if fix is not None:
                return tokens[place], tokens[place + length - 1], fix
    return None


def _is_word(token: Token) -> bool:
    return token.token_type in (TokenType.VAR, TokenType.L_PAREN)
