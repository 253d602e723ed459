"""Refusals of the Spark side that need no session."""

from __future__ import annotations

import pytest

from ds_dagster.datatypes import BIGINT, VARCHAR, ArrayType, DataType
from ds_dagster.errors import DsError
from ds_dagster.spark.faults import classify
from ds_dagster.spark.primitives import check_primitive


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
