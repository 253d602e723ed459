"""A session that plans with the rules of ``dsdagster.planning``."""

from __future__ import annotations

from typing import Any

import pytest

RECORDS = "spark.dsdagster.interpretedRecords"


@pytest.fixture
def ruled(lab: Any) -> Any:
    """A lab whose sessions plan with our rules. Sources have no names."""
    lab.operators.plan_with_rules()
    lab.spark = lab.spark.newSession()
    lab.spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false")
    return lab
