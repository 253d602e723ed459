"""Constants in expressions: each is tried when it is bound, so that no query ends for one that never worked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.datatypes import Scalar

if TYPE_CHECKING:
    from ds_dagster.plan.expressions import ExpressionBinder

TIMES: Mapping[str, tuple[Callable[[str], object], str]] = MappingProxyType(
    {
        "DATE": (date.fromisoformat, "'2024-01-31'"),
        "TIME": (time.fromisoformat, "'13:45:00'"),
        "TIMESTAMP": (datetime.fromisoformat, "'2024-01-31 13:45:00'"),
        "TIMESTAMP_LTZ": (datetime.fromisoformat, "'2024-01-31 13:45:00'"),
    }
)
"""Type of a time → what reads its literals, and one of them."""


def check_time(binder: ExpressionBinder, node: exp.Expression, text: str, type_: Scalar) -> None:
    """Raises: UserError LITERAL_INVALID for a text that is not a time of that type."""
    read, example = TIMES[type_.name]
    try:
        read(text)
    except ValueError as problem:
        raise binder.refuse("LITERAL_INVALID", node, value=text, type=type_, example=example) from problem
