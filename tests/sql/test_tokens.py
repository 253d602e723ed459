"""Where the tokenizer differs from sqlglot's own."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from ds_dagster.sql import parse_statement, print_statement
from ds_dagster.sql.tokens import DeltaStreamTokenizer


def test_comments_are_not_nested() -> None:
    text = "CREATE STREAM s AS SELECT x FROM t /* a /* b */ WHERE x = 1"
    assert print_statement(parse_statement(text)) == "CREATE STREAM s AS SELECT x FROM t WHERE x = 1"


def test_a_letter_before_quotes_is_a_word() -> None:
    assert [token.token_type for token in DeltaStreamTokenizer().tokenize("N'abc'")] == [
        TokenType.VAR,
        TokenType.STRING,
    ]
