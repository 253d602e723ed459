"""What to do about slips of the first hour."""

from __future__ import annotations

import pytest

from ds_dagster.errors import DsError
from ds_dagster.sql.script import parse_statement

SLIPS = {
    "CREATE STREAM s AS SELECT k FORM t": "did you mean FROM instead of FORM?",
    "CREATE STREAM s AS SELECT k FRM t": "did you mean FROM instead of FRM?",
    "CREATE STREAM s AS SELECT k FROM t WHER k = 1": "did you mean WHERE instead of WHER?",
    "CREATE CHANGELOG s AS SELECT COUNT(*) AS n FROM TUMBLE(t, SIZE '1 minute') GROUP BY n": "write it without quotes: "
    "SIZE 1 MINUTE",
}


@pytest.mark.parametrize("sql", SLIPS)
def test_slips(sql: str) -> None:
    with pytest.raises(DsError) as caught:
        parse_statement(sql)
    assert caught.value.hint == SLIPS[sql]
