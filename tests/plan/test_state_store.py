"""Where a query keeps its state, and what another store means for its checkpoint."""

from __future__ import annotations

import pytest

from ds_dagster.plan.identity.compatibility import verdict
from ds_dagster.plan.identity.held import over_state_of
from ds_dagster.plan.query import BoundQuery
from ds_dagster.plan.state_store import may_move, state_store, why_rocksdb
from tests.plan.conftest import Compile

SUM = "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url"
WINDOW = (
    "CREATE CHANGELOG s AS SELECT window_start, window_end, url, COUNT(*) AS n FROM {}(clicks WITH "
    "('timestamp' = 'at'), {} 1 MINUTE) GROUP BY window_start, window_end, url"
)
BESIDE = (
    "CREATE CHANGELOG s AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE((SELECT c.url FROM clicks c WITH "
    "('timestamp' = 'at') JOIN views v WITH ('timestamp' = 'at') WITHIN 1 MINUTE ON c.url = v.url) p, SIZE 1 MINUTE) "
    "GROUP BY window_start, window_end"
)
APPLICATION = (
    "BEGIN APPLICATION a;\n{};\nCREATE STREAM t AS SELECT url FROM clicks WITH ('timestamp' = 'at');\nEND APPLICATION{}"
)
QUERY = " QUERY WITH ('state.store' = '{}')"
MOVES = {"sum": SUM, "window": WINDOW.format("TUMBLE", "SIZE")}
STAYS = {"session": WINDOW.format("SESSION", "GAP"), "join below": BESIDE}


def one(compile_sql: Compile, sql: str) -> BoundQuery:
    project = compile_sql(f"{sql};")
    assert not project.errors, [problem.text() for problem in project.errors]
    return next(iter(project.queries.values()))


def chosen(compile_sql: Compile, sql: str, store: str) -> BoundQuery:
    return one(compile_sql, sql + QUERY.format(store))


@pytest.mark.parametrize("sql", [*MOVES.values(), *STAYS.values()])
def test_the_store_that_a_query_has_anyway_changes_nothing(compile_sql: Compile, sql: str) -> None:
    """No fingerprint and no state has another signature than without the property."""
    plain, same = one(compile_sql, sql), chosen(compile_sql, sql, "heap")
    assert (state_store(plain), state_store(same)) == ("heap", "heap")
    assert (plain.fingerprint, plain.state_signature) == (same.fingerprint, same.state_signature)
    assert plain.earlier_signatures == same.earlier_signatures


@pytest.mark.parametrize("sql", MOVES.values())
def test_groups_move(compile_sql: Compile, sql: str) -> None:
    plain, disk = one(compile_sql, sql), chosen(compile_sql, sql, "rocksdb")
    assert may_move(plain.plan)
    assert state_store(disk) == "rocksdb"
    assert plain.state_signature == disk.state_signature
    for old, new, place in ((plain, disk, "in RocksDB"), (disk, plain, "on the heap")):
        outcome = verdict(old, new)
        assert outcome.verdict == "keeps_checkpoint"
        assert place in outcome.rule


@pytest.mark.parametrize("sql", STAYS.values())
def test_other_state_cannot_move(compile_sql: Compile, sql: str) -> None:
    """Nor does a savepoint fit, which is compared by the signature alone."""
    plain, disk = one(compile_sql, sql), chosen(compile_sql, sql, "rocksdb")
    for old, new in ((plain, disk), (disk, plain)):
        outcome = verdict(old, new)
        assert (outcome.verdict, "state.store" in outcome.rule) == ("needs_new_checkpoint", True)
        assert not new.keeps_state_of(old.state_signature)
        assert over_state_of(old, new) is None


@pytest.mark.parametrize(("kept", "moves"), [("window", True), ("session", False)])
def test_an_application_has_one_store(compile_sql: Compile, kept: str, moves: bool) -> None:
    sql = APPLICATION.format({**MOVES, **STAYS}[kept], "")
    plain, disk = one(compile_sql, sql), one(compile_sql, f"{sql} WITH ('state.store' = 'rocksdb')")
    assert (state_store(plain), state_store(disk)) == ("heap", "rocksdb")
    assert verdict(plain, disk).verdict == ("keeps_checkpoint" if moves else "needs_new_checkpoint")
    assert disk.keeps_state_of(plain.state_signature) is moves


@pytest.mark.parametrize(
    ("sql", "store", "step"),
    [
        ("CREATE STREAM s AS SELECT url FROM clicks", None, ""),
        (BESIDE, "heap", ""),
        (f"{SUM} QUERY WITH ('state.ttl.millis' = 5000)", "rocksdb", "retractions"),
        ("CREATE CHANGELOG s AS SELECT name, COUNT(*) AS n FROM users GROUP BY name", "rocksdb", "retractions"),
        (
            "CREATE STREAM s AS SELECT c.url, u.name FROM clicks c JOIN users u ON c.userid = u.userid",
            "rocksdb",
            "versions",
        ),
        (
            "CREATE STREAM s AS SELECT c.url FROM clicks c JOIN views v WITHIN 1 MINUTE ON c.url = v.url",
            "rocksdb",
            "WITHIN",
        ),
    ],
)
def test_our_operators_need_rocksdb(compile_sql: Compile, sql: str, store: str | None, step: str) -> None:
    query = one(compile_sql, sql)
    assert state_store(query) == store
    assert step in why_rocksdb(query.plan)


def test_explain_shows_the_store(compile_sql: Compile) -> None:
    from ds_dagster.cli.explain import explain_level

    project = compile_sql(f"{SUM}{QUERY.format('rocksdb')};")
    (text,) = explain_level(project, project.queries["s"].sink.name, "stages").values()
    assert "kept in RocksDB, on disk ('state.store' = 'rocksdb')" in str(text)
