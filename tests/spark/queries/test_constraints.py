"""Constraints of relations on Spark: what is counted and shown, and how a batch fails."""

from __future__ import annotations

from ds_dagster.figures import Figures, after_batch
from ds_dagster.spark.queries import query as face

ORDERS = """CREATE STREAM orders (id INTEGER, amount INTEGER, note VARCHAR,
  CONSTRAINT positive CHECK (amount > 0) ON VIOLATION {}, CONSTRAINT "Small" CHECK (amount < 100) ON VIOLATION WARN)
  WITH ('topic' = 'orders', 'value.format' = 'json');"""


def figures(query) -> Figures:
    """Of all batches so far."""
    total = Figures()
    for report in query.recentProgress:
        total = after_batch(total, face.read_progress(report.json))
    return total


def test_violations_are_counted_by_constraint_with_the_place_of_one(bench):
    bench.compile(
        ORDERS.format("DROP")
        + "CREATE STREAM ids (CONSTRAINT few CHECK (id < 3) ON VIOLATION WARN) AS SELECT id FROM orders;"
    )
    query = bench.start("ids")
    bench.send("orders", {"id": 1, "amount": 5}, {"id": 2, "amount": -5}, {"id": 3, "amount": 500})
    bench.settle(query)
    bench.send("orders", {"id": 4, "amount": 0, "note": "private"}, {"id": 5, "amount": None})
    bench.settle(query)
    assert [row["id"] for row in bench.values] == [1, 3, 5]
    violations = {name.split(".", 2)[2]: counts for name, counts in figures(query).violations.items()}
    assert violations == {
        "orders.positive": {"rows": 2, "sample": "0/3"},
        "orders.Small": {"rows": 1, "sample": "0/2"},
        "ids.few": {"rows": 2, "sample": "0/4"},
    }
    assert "private" not in str(violations)


def test_nothing_is_reported_where_nothing_is_violated(bench):
    bench.compile(ORDERS.format("FAIL") + "CREATE STREAM ids AS SELECT id FROM orders;")
    query = bench.start("ids")
    bench.send("orders", {"id": 1, "amount": 5})
    bench.settle(query)
    assert figures(query).violations is None


def test_a_failure_names_constraint_and_record_and_shows_no_value(bench):
    bench.compile(ORDERS.format("FAIL") + "CREATE STREAM ids AS SELECT id FROM orders;")
    query = bench.start("ids")
    bench.send("orders", {"id": 1, "amount": 5}, {"id": 2, "amount": -5, "note": "private"})
    fault = bench.fault(query)
    assert fault.condition == "CONSTRAINT_VIOLATED"
    assert fault.params["constraint"] == "positive"
    assert (fault.params["partition"], fault.params["position"]) == ("0", "1")
    assert str(fault.params["entity"]).endswith(".orders")
    assert fault.message.startswith("record 1 of partition 0 of ")
    assert "private" not in str(fault)
    assert bench.values == []


def test_a_group_that_violates_a_constraint_names_no_record(bench):
    bench.compile(
        "CREATE STREAM orders (id INTEGER) WITH ('topic' = 'orders', 'value.format' = 'json');"
        "CREATE CHANGELOG c (CONSTRAINT once CHECK (n < 2)) AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;"
    )
    query = bench.start("c")
    bench.send("orders", {"id": 1}, {"id": 1})
    fault = bench.fault(query)
    assert fault.condition == "CONSTRAINT_VIOLATED_BY_GROUP"
    assert (fault.params["constraint"], "position" in fault.params) == ("once", False)
