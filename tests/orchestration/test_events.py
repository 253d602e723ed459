"""What the journal knows of jobs, as metadata of assets."""

from __future__ import annotations

from ds_dagster.orchestration.events import status_metadata
from tests.orchestration.health.test_checks import status


def test_sources_tell_what_no_sum_holds() -> None:
    slot = {"lag_records": 0, "lag_seconds": 0.0, "lost_records": 0, "wal_status": "reserved", "lag_bytes": 17}
    found = status_metadata([status(details={"sources": {"orders": slot}}), status(name="p")])
    assert found["ds_dagster/orders/wal_status"] == "reserved"
    assert found["ds_dagster/orders/lag_bytes"] == 17
    assert "ds_dagster/orders/lag_records" not in found
