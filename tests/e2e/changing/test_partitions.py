"""A run of a Dagster partition against real servers: what was loaded and damaged is as the stream computes it, inside
of the partition, and nothing changes outside of it."""

from __future__ import annotations

import random
from datetime import datetime, timezone

import dagster as dg

from ds_dagster.orchestration import DsProject, build_ds_definitions
from tests.e2e.changing.test_backfill import damage, inside, outside, send, stored, wanted
from tests.e2e.feeding import House

TABLE = "moments_days"
DAY = datetime(2023, 11, 15, tzinfo=timezone.utc)
BEGIN = round(DAY.timestamp() * 1000)
END = BEGIN + 86_400_000


def test_a_partition_is_as_the_stream_computes_it(house: House) -> None:
    chance = random.Random(11)
    house.recover()
    house.load(TABLE)  # makes the topic
    send(house, chance, 60)
    house.load(TABLE)
    damage(house, TABLE)
    damaged = stored(house, TABLE)
    assert inside(damaged, BEGIN, END) and outside(damaged, BEGIN, END)
    send(house, chance, 30)  # the run loads these before it replaces rows
    result = materialized(house, TABLE, "2023-11-15")
    (event,) = result.get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    expected = wanted(house)
    rows = stored(house, TABLE)
    assert inside(rows, BEGIN, END) == inside(expected, BEGIN, END)
    assert metadata["dagster/partition_row_count"].value == len(inside(rows, BEGIN, END))
    lost = [row for row in outside(damaged, BEGIN, END) if row not in outside(rows, BEGIN, END)]
    assert not lost, "what is outside of the partition stays as it is"
    new = len(outside(rows, BEGIN, END)) - len(outside(damaged, BEGIN, END))
    assert metadata["ds_dagster/rows_loaded"].value >= new >= 0
    assert "backfill of happened from 2023-11-15" in house.control.transitions(TABLE)[0].reason


def materialized(house: House, table: str, partition: str) -> dg.ExecuteInProcessResult:
    """A run of one partition of a table."""
    definitions = build_ds_definitions(DsProject(house.root), observe_sources=False)
    job = definitions.resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(["clickstream_db", "public", table])]
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(asset_selection=selection, partition_key=partition, instance=instance)
