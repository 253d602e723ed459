"""CPU time to load a project of many generated relations: cold, and from the cache.

Budget for 1,000 relations: cold 1.5 s, cached 0.1 s of CPU (imports not counted).
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ds_dagster.project.load import load_project
from ds_dagster.settings import Settings, load_settings

if TYPE_CHECKING:
    from benchmarks.measure import Result, Size

BUDGETS = {"cold": 1.5, "cached": 0.1}

STATEMENTS = (
    """-- Filtered copy.
CREATE STREAM stream_{n} AS SELECT event_time, device_id, UPPER(url) AS url, userid, ip FROM clicks_{s}
  WHERE device_id = 'desktop' AND url LIKE './%' AND userid IS NOT NULL;""",
    """-- Clicks with their users.
-- @owner team:web
CREATE STREAM joined_{n} WITH ('value.format'='json') AS
  SELECT u.registertime AS user_registertime, u.userid AS uid, u.regionid AS user_regionid, u.gender AS user_gender,
         u.interests AS user_interests, c.event_time AS click_time, c.device_id AS device_type, c.url AS click_url
  FROM clicks_{s} c JOIN users_{s} u ON c.userid = u.userid;""",
    """CREATE CHANGELOG counts_{n} AS SELECT url, device_id, count(*) AS click_count FROM clicks_{s} GROUP BY url,
    device_id;""",
    """CREATE MATERIALIZED VIEW visits_{n} AS
  SELECT url, count(*) AS visits, MAX(event_time) AS newest, CASE WHEN count(*) > 10 THEN 'many' ELSE 'few' END AS size
  FROM clicks_{s} GROUP BY url;""",
    """CREATE MATERIALIZED VIEW minutes_{n} AS SELECT window_start, window_end, url, count(*) AS visits
  FROM TUMBLE(clicks_{s}, SIZE 1 MINUTE) GROUP BY window_start, window_end, url;""",
)
STORE = "CREATE STORE prod_kafka WITH ('type' = KAFKA, 'uris' = 'localhost:9092');"
SOURCES = """
CREATE STREAM clicks_{s} (event_time BIGINT, device_id VARCHAR, url VARCHAR, userid VARCHAR, ip VARCHAR)
  WITH ('topic'='clicks_{s}', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE CHANGELOG users_{s} (registertime BIGINT, name VARCHAR, userid VARCHAR, regionid VARCHAR, gender VARCHAR,
  interests ARRAY<VARCHAR>, contactinfo STRUCT<phone VARCHAR, city VARCHAR>, PRIMARY KEY(userid))
  WITH ('topic'='users_{s}', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
"""


def files(relations: int) -> Iterator[tuple[str, str]]:
    """(name, text) of files of about fifty relations each."""
    yield "stores.sql", STORE
    per_file = 50
    for s in range((relations + per_file - 1) // per_file):
        count = min(per_file, relations - s * per_file) - 2
        queries = (STATEMENTS[n % len(STATEMENTS)].format(n=f"{s}_{n}", s=s) for n in range(count))
        yield f"part_{s}.sql", SOURCES.format(s=s) + "\n".join(queries)


def write_project(root: Path, relations: int) -> None:
    """A project folder with that many generated relations."""
    (root / "sql").mkdir(parents=True)
    (root / "ds.toml").write_text('store = "prod_kafka"\n', encoding="utf-8")
    for name, text in files(relations):
        (root / "sql" / name).write_text(text, encoding="utf-8")


def load(size: Size) -> list[Result]:
    """Cold and from the cache; there is no peer but the budget."""
    from benchmarks.measure import Pairs, results

    relations = size.of(1000, 100)
    found = [Pairs(f"load of {relations:,} relations, {name} (peer: budget)", "s CPU", False) for name in BUDGETS]
    for _ in range(size.runs):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "project"
            write_project(root, relations)
            settings = load_settings(root)
            for pair, budget in zip(found, BUDGETS.values(), strict=True):
                pair.add(_cpu(root, settings, relations), budget)
    return results(found)


def _cpu(root: Path, settings: Settings, relations: int) -> float:
    """CPU seconds of one load, without the collection of a project that was loaded before."""
    gc.collect()
    begin = time.process_time()
    project = load_project(root, settings=settings)
    used = time.process_time() - begin
    if project.errors or len(project.catalog.relations) != relations:
        raise SystemExit(f"{len(project.catalog.relations)} relations, {len(project.errors)} errors")
    return used
