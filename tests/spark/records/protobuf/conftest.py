"""The bench of the schema registry, for every format."""

from __future__ import annotations

from tests.spark.records.avro.conftest import AvroBench, bench, registry

__all__ = ["AvroBench", "bench", "registry"]
