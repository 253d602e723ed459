"""The dialect for sqlglot. sqlglot provides the tokenizer, the nodes of expressions and their printing. The grammar
(``sql/grammar/``) is our own recursive descent; it uses sqlglot's parser only as a cursor over tokens.
"""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect

from ds_dagster.sql.generator import DeltaStreamGenerator
from ds_dagster.sql.parser import DeltaStreamParser
from ds_dagster.sql.tokens import DeltaStreamTokenizer


class DeltaStream(Dialect):
    """DeltaStream SQL. Unquoted names fold to lower case; array indexes count from 1 and stay as written."""

    Tokenizer = DeltaStreamTokenizer
    Parser = DeltaStreamParser
    Generator = DeltaStreamGenerator
