"""The real engine: one engine, one broker and one Postgres server for all of these tests. Their starts cost most.

The tests are in kafka_jobs.py, realtime_jobs.py and spark_jobs.py; those of the last one end the engine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ds_dagster.local.servers import down
from ds_dagster.runtime.engine import stop_engine
from tests.engine import kafka_jobs, realtime_jobs, spark_jobs

pytestmark = [pytest.mark.servers, pytest.mark.spark]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[realtime_jobs.Realtime]:
    sql = f"{kafka_jobs.SQL}{spark_jobs.SQL}"
    made = realtime_jobs.Realtime(tmp_path_factory.mktemp("project"), sql, ("kafka", "postgres"))
    yield made
    stop_engine(made.settings, 60, kill=True)
    down(made.root / ".ds")


@pytest.fixture(scope="module")
def home(house: realtime_jobs.Realtime) -> spark_jobs.Counted:
    return spark_jobs.Counted(house.root, house.settings, house.control, lambda: house.project)


globals().update(
    {
        name: found
        for module in (kafka_jobs, realtime_jobs, spark_jobs)
        for name, found in vars(module).items()
        if name.startswith("test_")
    }
)
