"""The comparison with the model: what it refuses to compare."""

from __future__ import annotations

import pytest

from tests.e2e.model import difference


def test_a_model_without_rows_is_refused_unless_that_is_known() -> None:
    assert not difference([{"a": 1}], [{"a": 1}])
    assert difference([], [{"a": 1}]).startswith("1 missing, 0 extra")
    for found in ([], [{"a": 1}]):
        with pytest.raises(AssertionError, match="the model expects no row"):
            difference(found, [])
    assert not difference([], [], may_be_empty=True)
    assert difference([{"a": 1}], [], may_be_empty=True).startswith("0 missing, 1 extra")
