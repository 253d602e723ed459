"""Conditions of the store that a query keeps its state in."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "STATE_STORE_WITHOUT_STATE",
        "user",
        "'state.store' on a query without state",
        "leave it out: no step of the query keeps rows or groups",
    ),
    Condition(
        "STATE_STORE_NEEDS_DISK",
        "user",
        "'state.store' = 'heap' on a query with {step}, whose state is kept in RocksDB",
        "leave it out, or write 'state.store' = 'rocksdb'",
    ),
    Condition(
        "APPLICATION_STATE_STORES",
        "user",
        "{queries} of an application name different stores for their state",
        "an application is one job with one store for all its state; write the same 'state.store' for all its queries: "
        "END APPLICATION WITH (…)",
        "0A000",
    ),
)
