"""SQL text and syntax: files → frozen statement records with spans. Checks syntax only; ``catalog`` and ``plan`` give
the records their meaning.

Entry points: :func:`parse_file`, :func:`parse_statement`, :func:`parse_select`, :func:`parse_type`,
:func:`print_statement`, :func:`print_select`. Code that reads SELECT trees also uses :func:`span_of`,
:func:`function_call` and :func:`type_of_node`.
"""

from __future__ import annotations

from ds_dagster.sql.dialect import DeltaStream
from ds_dagster.sql.lowering import FunctionCall, function_call, span_of
from ds_dagster.sql.printing import print_select, print_statement
from ds_dagster.sql.script import parse_file, parse_select, parse_statement, parse_type
from ds_dagster.sql.typetext import type_node, type_of_node

__all__ = [
    "parse_file", "parse_statement", "parse_select", "parse_type", "print_statement", "print_select", "span_of",
    "function_call", "FunctionCall", "type_node", "type_of_node", "DeltaStream",
]  # fmt: skip
