"""Values of the state store: what does not fit into one is said, not cut off."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ds_dagster.spark.faults import classify

pytestmark = pytest.mark.spark
LAYOUT = 7


def layouts(lab: Any) -> Any:
    return lab.spark._jvm.dsdagster.Layout


def create(lab: Any, size: int) -> Any:
    number = lab.spark._jvm.java.lang.Byte.valueOf(str(LAYOUT))
    return layouts(lab).create(size, number, "state of a test")


def test_a_value_begins_with_the_number_of_its_layout(lab: Any) -> None:
    made = create(lab, 5)
    assert (made.get(0), made.capacity(), made.position()) == (LAYOUT, 5, 1)


def test_more_than_an_array_holds_under_one_key_is_a_condition(lab: Any) -> None:
    with pytest.raises((Py4JJavaError, PySparkException)) as caught:
        create(lab, 1 << 31)
    found = classify(caught.value)
    assert found.condition == "STATE_TOO_LARGE"
    assert "state of a test: 2147483648 bytes under one key" in str(found)
