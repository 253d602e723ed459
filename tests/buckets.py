"""Rows of a key in buckets of a few rows: what only a hot key has, for every key of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

PROPERTY = "ds.state.bucket.bytes"
TINY = 150
"""Bytes: two or three rows."""
SIZES = [pytest.param(TINY, id="tiny_buckets"), pytest.param(0, id="usual", marks=pytest.mark.slow)]
"""For fixtures: tiny ones always; with the long tests as they usually are, which most other tests have."""


@contextmanager
def buckets_of(spark: SparkSession, size: int) -> Iterator[None]:
    """Operators that start meanwhile split what they keep of a key after so many bytes; 0: after the usual number."""
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    if size:
        system.setProperty(PROPERTY, str(size))
    try:
        yield
    finally:
        system.clearProperty(PROPERTY)
