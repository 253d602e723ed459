"""Types of other dialects: each is refused with the type of ours that holds its values."""

from __future__ import annotations

import pytest

from ds_dagster.errors import DsError
from ds_dagster.sql.script import parse_type
from ds_dagster.sql.typetext import NESTED, OF_OTHER_DIALECTS


@pytest.mark.parametrize(("foreign", "ours"), OF_OTHER_DIALECTS.items())
def test_the_hint_names_a_type_of_ours(foreign: str, ours: str) -> None:
    with pytest.raises(DsError) as refused:
        parse_type(foreign)
    assert refused.value.condition == "TYPE_UNKNOWN"
    assert refused.value.hint == f"did you mean {ours}?"
    assert ours.lower() in NESTED or str(parse_type(ours))
