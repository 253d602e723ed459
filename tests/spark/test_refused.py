"""Refusals of the Spark side that need no session."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from ds_dagster.datatypes import BIGINT, VARCHAR, ArrayType, DataType
from ds_dagster.errors import DsError
from ds_dagster.spark.faults import classify
from ds_dagster.spark.records.primitives import check_primitive


@pytest.mark.parametrize("type_", [BIGINT, VARCHAR])
def test_primitive_records(type_: DataType) -> None:
    assert check_primitive(type_, "k.t") == type_


def test_a_list_is_no_primitive_record() -> None:
    with pytest.raises(DsError) as refused:
        check_primitive(ArrayType(BIGINT), "k.t")
    assert refused.value.condition == "PRIMITIVE_TYPE_NOT_BUILT"
    assert "k.t" in str(refused.value)


def test_a_jvm_that_is_gone_is_told_as_such() -> None:
    found = classify(ConnectionRefusedError(111, "Connection refused"))
    assert found.condition == "SPARK_LOST"
    assert found.fault.hint == "back_off"


def test_a_pattern_spark_does_not_know_is_the_users() -> None:
    problem = PySparkException("Fail to recognize 'QQQQQ'", errorClass="INVALID_DATETIME_PATTERN.WITH_SUGGESTION")
    found = classify(problem)
    assert (found.condition, found.fault.hint) == ("PATTERN_INVALID", "never")


def test_a_python_worker_that_came_too_late_is_worth_another_try() -> None:
    text = "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back"
    found = classify(PySparkException(text))
    assert (found.condition, found.fault.domain) == ("PYTHON_WORKER_SLOW", "external")
    assert found.fault.hint == "soon"
