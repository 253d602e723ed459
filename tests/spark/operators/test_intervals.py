"""Which interval joins our operator does: those whose time nobody above takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.plan.nodes.join import IntervalJoin
from ds_dagster.plan.state_store import own_joins, state_store
from ds_dagster.project.load import compile_texts
from ds_dagster.settings import Settings

pytestmark = pytest.mark.spark

DECLARED = """
CREATE STORE m WITH ('type' = MEMORY);
CREATE STREAM a (k BIGINT, x BIGINT) WITH ('topic' = 'a', 'value.format' = 'json');
CREATE STREAM b (k BIGINT, y BIGINT) WITH ('topic' = 'b', 'value.format' = 'json');
CREATE STREAM c (k BIGINT, z BIGINT) WITH ('topic' = 'c', 'value.format' = 'json');
CREATE CHANGELOG u (k BIGINT, name VARCHAR, PRIMARY KEY(k)) WITH ('topic' = 'u', 'value.format' = 'json');
"""
PAIRS = "SELECT a.k, a.x, b.y FROM a {} JOIN b WITHIN 1 SECONDS ON a.k = b.k"


@pytest.mark.parametrize(
    ("query", "joins", "done"),
    [
        (f"CREATE STREAM q AS {PAIRS.format('')};", 1, 1),
        (f"CREATE STREAM q AS {PAIRS.format('FULL')};", 1, 1),
        (f"CREATE STREAM q AS {PAIRS.format('')} AND a.x < b.y WHERE b.y > 1;", 1, 1),
        (f"CREATE STREAM q AS {PAIRS.format('LEFT')} AND a.x < b.y;", 1, 0),
        (f"CREATE CHANGELOG q AS SELECT k, COUNT(*) AS n FROM ({PAIRS.format('')}) p GROUP BY k;", 1, 1),
        (
            f"""CREATE CHANGELOG q AS SELECT window_start, window_end, COUNT(*) AS n
                FROM TUMBLE(({PAIRS.format("")}) p, SIZE 1 MINUTES) GROUP BY window_start, window_end;""",
            1,
            0,
        ),
        (
            """CREATE STREAM q AS SELECT a.k, a.x, u.name FROM a JOIN b WITHIN 1 SECONDS ON a.k = b.k
               JOIN u ON a.k = u.k;""",
            1,
            0,
        ),
        (
            """CREATE STREAM q AS SELECT a.k, a.x, c.z FROM a JOIN b WITHIN 1 SECONDS ON a.k = b.k
               JOIN c WITHIN 2 SECONDS ON a.k = c.k;""",
            2,
            1,
        ),
    ],
)
def test_a_join_is_ours_unless_a_step_above_takes_its_time(query: str, joins: int, done: int, tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path, store="m")
    project = compile_texts([("q.sql", DECLARED + query)], settings)
    assert not project.errors
    root = project.queries["q"].root
    assert sum(isinstance(node, IntervalJoin) for node in root.walk()) == joins
    assert len(own_joins(root)) == done
    assert done == 0 or state_store(project.queries["q"]) == "rocksdb"
