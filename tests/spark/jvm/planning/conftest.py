"""A session that plans with the rules of ``dsdagster.planning``."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.query import StreamingQuery

RECORDS = "spark.dsdagster.interpretedRecords"


@pytest.fixture
def ruled(lab: Any) -> Any:
    """A lab whose sessions plan with our rules. Sources have no names."""
    lab.operators.plan_with_rules()
    lab.spark = lab.spark.newSession()
    lab.spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false")
    return lab


def plan_of(query: StreamingQuery) -> str:
    """The plan of the last batch."""
    return str(query._jsq.streamingQuery().lastExecution().executedPlan().toString())  # type: ignore[attr-defined]
