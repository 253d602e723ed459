"""The property of where a query keeps its state."""

from __future__ import annotations

from ds_dagster.catalog.properties.spec import PropertySpec

NAME = "state.store"

STATE_STORE: tuple[PropertySpec, ...] = (
    PropertySpec(
        NAME,
        "word",
        ("query",),
        "where the query keeps its state: heap, in the memory of the JVM (default for GROUP BY of streams), or "
        "rocksdb, on disk, for more groups than memory has room for (default for all other steps)",
        choices=("heap", "rocksdb"),
    ),
)
