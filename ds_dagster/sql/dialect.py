"""The dialect, by subclassing: sqlglot itself and its other dialects stay as they are."""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect, NormalizationStrategy

from ds_dagster.sql.generator import DeltaStreamGenerator
from ds_dagster.sql.parser import DeltaStreamParser
from ds_dagster.sql.tokens import DeltaStreamTokenizer


class DeltaStream(Dialect):
    """DeltaStream SQL. Unquoted names fold to lower case; array indexes count from 1 and stay as written."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.LOWERCASE
    TYPED_DIVISION = True
    INDEX_OFFSET = 0

    Tokenizer = DeltaStreamTokenizer
    Parser = DeltaStreamParser
    Generator = DeltaStreamGenerator
