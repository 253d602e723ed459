"""Functions that give another value each time: where over a changelog they may stand."""

from __future__ import annotations

import pytest

from tests.plan.conftest import Compile

ALLOWED = (
    "CREATE CHANGELOG s AS SELECT userid, CURRENT_TIMESTAMP AS seen FROM users",
    "CREATE CHANGELOG s AS SELECT userid, name FROM users WHERE TO_TIMESTAMP_LTZ(at, 3) > CURRENT_TIMESTAMP",
    "CREATE CHANGELOG s AS SELECT u.userid, a.name, UUID() AS id FROM users u JOIN accounts a ON u.userid = a.userid",
    "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n, CURRENT_DATE AS day FROM clicks GROUP BY url",
    "CREATE CHANGELOG s AS SELECT name, COUNT(*) AS n FROM users GROUP BY name HAVING COUNT(*) > RAND_INTEGER(3)",
    "CREATE STREAM s AS SELECT DISTINCT url, CURRENT_DATE AS day FROM clicks",
)
REFUSED = (
    "CREATE CHANGELOG s AS SELECT g, COUNT(*) AS n FROM (SELECT userid, UUID() AS g FROM users) q GROUP BY g",
    "CREATE CHANGELOG s AS SELECT name, COUNT(*) AS n FROM users WHERE RAND() > 0.5 GROUP BY name",
    "CREATE CHANGELOG s AS SELECT name, MAX(at + RAND_INTEGER(9)) AS n FROM users GROUP BY name",
    "CREATE CHANGELOG s AS SELECT DISTINCT name, CURRENT_DATE AS day FROM users",
)


@pytest.mark.parametrize("sql", ALLOWED)
def test_what_is_only_shown_or_asked_once_may_differ(sql: str, compile_sql: Compile) -> None:
    project = compile_sql(sql + ";")
    assert project.errors == () and list(project.queries) == ["s"]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_decides_over_rows_that_may_go_is_refused(sql: str, compile_sql: Compile) -> None:
    assert {problem.condition for problem in compile_sql(sql + ";").errors} == {"VALUE_NOT_REPEATABLE"}
