"""The dialect for sqlglot. sqlglot provides the tokenizer, the nodes of expressions and their printing. The grammar
(``sql/grammar/``) is our own recursive descent; it uses sqlglot's parser only as a cursor over tokens.
"""

from __future__ import annotations

from typing import TypeVar

import sqlglot.parser
from sqlglot.dialects.dialect import Dialect

from ds_dagster.errors import error
from ds_dagster.sql.generator import DeltaStreamGenerator
from ds_dagster.sql.parser import DeltaStreamParser
from ds_dagster.sql.tokens import DeltaStreamTokenizer


class DeltaStream(Dialect):
    """DeltaStream SQL. Unquoted names fold to lower case; array indexes count from 1 and stay as written."""

    Tokenizer = DeltaStreamTokenizer
    Parser = DeltaStreamParser
    Generator = DeltaStreamGenerator


P = TypeVar("P", bound=DeltaStreamParser)


def new_parser(kind: type[P]) -> P:
    """A parser of this dialect.

    Raises:
        UserError: SQLGLOT_COMPILED. Classes of sqlglot's compiled build (package ``sqlglotc``, extras ``c`` and ``rs``)
            cannot be extended (https://github.com/tobymao/sqlglot/issues/7923); it replaces the modules of the build
            in Python as soon as it is installed.
    """
    if not str(sqlglot.parser.__file__).endswith(".py"):
        raise error("SQLGLOT_COMPILED")
    return kind(dialect=DeltaStream)
