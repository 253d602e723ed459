"""Columns that travel beside those of the user are all reserved."""

from __future__ import annotations

import ast
import re

from ds_dagster.catalog.reserved_columns import RESERVED_COLUMNS
from tests.architecture.trees import modules

PLACES = ("spark/", "stores/table_sink.py")
ELSEWHERE = {"__name__", "__file__", "__type"}
"""Python's own, and the field of an answer of Kinesis."""


def test_every_name_of_ours_is_reserved() -> None:
    used = {
        node.value
        for found in modules()
        if found.path.startswith(PLACES)
        for node in found.nodes()
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"__[a-z_]*[a-z]", node.value)
    }
    assert used - ELSEWHERE <= RESERVED_COLUMNS
    assert RESERVED_COLUMNS - used <= {"__corrupt"}, "names of nothing"
