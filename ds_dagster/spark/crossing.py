"""Our failures that pass through Spark. Spark keeps only the text of a failure, so the text holds the whole failure
(its envelope, see :mod:`ds_dagster.envelope`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from ds_dagster.envelope import to_wire
from ds_dagster.errors import DsError
from ds_dagster.spark.faults import SPARK_ERRORS, brief

T = TypeVar("T")


def crossing(called: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that Spark calls, in a worker or back from the JVM: its failures, also while it yields rows, get
    an envelope."""

    @wraps(called)
    def call(*arguments: Any, **named: Any) -> Any:
        with enveloped():
            result = called(*arguments, **named)
        return _rows(result) if isinstance(result, Iterator) else result

    return call


def called_back(called: Callable[..., Any]) -> Callable[..., Any]:
    """:func:`crossing` for a function that the JVM calls in this process; failures of Spark in it become brief."""

    @wraps(called)
    def call(*arguments: Any) -> Any:
        try:
            return called(*arguments)
        except SPARK_ERRORS as failure:
            raise brief(failure) from None

    return crossing(call)


def crosses(kind: type[T]) -> type[T]:
    """Class decorator for a data source, reader or writer: applies :func:`crossing` to all public methods."""
    for name, method in list(vars(kind).items()):
        if callable(method) and not name.startswith("_"):
            setattr(kind, name, crossing(method))
    return kind


def _rows(rows: Iterator[Any]) -> Iterator[Any]:
    with enveloped():
        yield from rows


@contextmanager
def enveloped() -> Iterator[None]:
    """Put the envelope on a DsError that the body raises."""
    try:
        yield
    except DsError as failure:
        failure.envelope = to_wire(failure)
        raise
