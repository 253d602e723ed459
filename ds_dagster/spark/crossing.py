"""Failures of ours on their way through Spark, which keeps a failure's text alone: the text is its envelope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from ds_dagster.envelope import to_wire
from ds_dagster.errors import DsError

T = TypeVar("T")


def crossing(called: Callable[..., Any]) -> Callable[..., Any]:
    """A function that Spark calls, in a worker or back from the JVM; what it yields is part of it."""

    @wraps(called)
    def call(*arguments: Any, **named: Any) -> Any:
        with enveloped():
            result = called(*arguments, **named)
        return _rows(result) if isinstance(result, Iterator) else result

    return call


def crosses(kind: type[T]) -> type[T]:
    """A data source, reader or writer, all of whose public methods are called by Spark."""
    for name, method in list(vars(kind).items()):
        if callable(method) and not name.startswith("_"):
            setattr(kind, name, crossing(method))
    return kind


def _rows(rows: Iterator[Any]) -> Iterator[Any]:
    with enveloped():
        yield from rows


@contextmanager
def enveloped() -> Iterator[None]:
    """A failure of the body leaves it in its envelope."""
    try:
        yield
    except DsError as failure:
        failure.envelope = to_wire(failure)
        raise
