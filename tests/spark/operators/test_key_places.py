"""Keys whose rows the step below has put together: where that holds, and that nothing changes but the exchanges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from ds_dagster.plan.nodes.delta import Fold
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.spark.operators.key_places import place_of_changes, place_of_partitions
from tests.spark.jvm.planning.conftest import plan_of
from tests.testing.seeds import seed

pytestmark = pytest.mark.spark

SOURCES = """CREATE STREAM bids (item INTEGER, bidder VARCHAR, price INTEGER, t BIGINT)
  WITH ('topic' = 'bids', 'value.format' = 'json', 'timestamp' = 't');
CREATE CHANGELOG items (id INTEGER, seller VARCHAR, t BIGINT, PRIMARY KEY (id))
  WITH ('topic' = 'items', 'value.format' = 'json', 'key.format' = 'json', 'timestamp' = 't');
CREATE CHANGELOG offers (offer INTEGER, item INTEGER, price INTEGER, t BIGINT, PRIMARY KEY (offer))
  WITH ('topic' = 'offers', 'value.format' = 'json', 'key.format' = 'json', 'timestamp' = 't');
CREATE CHANGELOG wide (id BIGINT, seller VARCHAR, t BIGINT, PRIMARY KEY (id))
  WITH ('topic' = 'wide', 'value.format' = 'json', 'key.format' = 'json', 'timestamp' = 't');
"""
RANK = "ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}price DESC, {}t) AS n"


def first(columns: str, partition: str, rows: str, limit: int = 1, prefix: str = "") -> str:
    """The first rows of each partition."""
    rank = RANK.format(partition, prefix, prefix)
    names = ", ".join(column.rpartition(".")[2].rpartition(" ")[2] for column in columns.split(", "))
    more = ", n" if limit > 1 else ""
    return f"SELECT {names}{more} FROM (SELECT {columns}, {rank} FROM {rows}) q WHERE n <= {limit}"


OFFERS = "offers o {} items i ON o.item = i.id"
OF_ITEM = "o.offer, o.price, o.t, i.id AS id, i.seller"
PLACES = {
    "the last of each key": (first("item, bidder, price", "item, bidder", "bids"), "ANYWHERE", "ADJACENT"),
    "the key in another order": (first("bidder, item, price", "bidder, item", "bids"), "ANYWHERE", "ADJACENT"),
    "the first three": (first("item, bidder, price", "item", "bids", 3), "ANYWHERE", "ONE_TASK"),
    "of a join": (first(OF_ITEM, "i.id", OFFERS.format("JOIN"), prefix="o."), "IN_PARTITION", "ADJACENT"),
    "of the other side of it": (
        first("o.offer, o.price, o.t, o.item AS item", "o.item", OFFERS.format("JOIN"), prefix="o."),
        *("IN_PARTITION", "ADJACENT"),
    ),
    "of a join's other column": (
        first("o.offer, o.price, o.t, i.seller AS seller", "i.seller", OFFERS.format("JOIN"), prefix="o."),
        *("ANYWHERE", "ADJACENT"),
    ),
    "of rows without a partner": (
        first(OF_ITEM, "i.id", OFFERS.format("LEFT JOIN"), prefix="o."),
        *("ANYWHERE", "ADJACENT"),
    ),
    "of the side of which none is missing": (
        first("o.offer, o.price, o.t, o.item AS item", "o.item", OFFERS.format("LEFT JOIN"), prefix="o."),
        *("IN_PARTITION", "ADJACENT"),
    ),
    "of keys of two types": (
        first("o.offer, o.price, o.t, o.item AS item", "o.item", "offers o JOIN wide i ON o.item = i.id", prefix="o."),
        *("ANYWHERE", "ADJACENT"),
    ),
    "of versions": (
        first("b.bidder, b.price, b.t, i.id AS id", "i.id", "bids b JOIN items i ON b.item = i.id", prefix="b."),
        *("IN_PARTITION", "ADJACENT"),
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_of_keys(bench: Any, name: str) -> None:
    sql, partitions, changes = PLACES[name]
    plan = bench.compile(SOURCES + f"CREATE CHANGELOG s AS {sql};").queries["s"].plan
    (ranks,) = [node for node in plan.walk() if isinstance(node, TopN)]
    (fold,) = [node for node in plan.walk() if isinstance(node, Fold)]
    assert (place_of_partitions(ranks), place_of_changes(fold)) == (partitions, changes)


def test_changes_of_a_join_are_made_by_its_keys(bench: Any) -> None:
    """The key of the result has that of the join, or it has not."""
    places = {}
    for key, sql in {
        "joined": "SELECT o.item, o.offer, i.seller FROM offers o JOIN items i ON o.item = i.id",
        "other": "SELECT o.offer, i.seller FROM offers o JOIN items i ON o.item = i.id",
    }.items():
        plan = bench.compile(SOURCES + f"CREATE CHANGELOG s AS {sql};").queries["s"].plan
        (fold,) = [node for node in plan.walk() if isinstance(node, Fold)]
        places[key] = place_of_changes(fold)
    assert places == {"joined": "ANYWHERE", "other": "ANYWHERE"}  # its key is that of the offers


def offers(dice: random.Random, begin: int) -> Iterator[tuple[int, dict[str, int] | None]]:
    """Changes of offers: new ones, others in place of them, and ends."""
    for t in range(begin, begin + 40):
        offer = dice.randrange(15)
        is_over = dice.random() < 0.3
        yield offer, None if is_over else {"item": dice.randrange(6), "price": dice.randrange(9), "t": t}


def best(
    current: dict[int, dict[str, int]], items: dict[int, str], limit: int
) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Item and rank → its offer."""
    ranks: dict[tuple[int, int], tuple[Any, ...]] = {}
    for item in items:
        of_item = [(-row["price"], row["t"], offer) for offer, row in current.items() if row["item"] == item]
        for rank, (price, _, offer) in enumerate(sorted(of_item)[:limit], 1):
            ranks[item, rank] = (offer, -price, items[item])
    return ranks


@pytest.mark.parametrize("limit", [1, 3])
def test_first_rows_of_a_join_are_not_exchanged_again(bench: Any, limit: int) -> None:
    """In three partitions, over batches and a restart: the same ranks as a plain model after each batch. Both
    changelogs and the join have an exchange; ranks and changes have none."""
    bench.spark.conf.set("spark.sql.shuffle.partitions", "3")
    sql = first(OF_ITEM, "i.id", OFFERS.format("JOIN"), limit, prefix="o.")
    bench.compile(SOURCES + f"CREATE CHANGELOG s AS {sql};")
    dice, items = random.Random(seed(17)), {number: f"s{number}" for number in range(6)}
    current: dict[int, dict[str, int]] = {}
    for number, seller in items.items():
        bench.send("items", {"id": number, "seller": seller, "t": 0}, key={"id": number})
    query = bench.start("s")
    for batch in range(6):
        changes = list(offers(dice, batch * 40))
        for offer, row in changes:
            current.pop(offer, None)
            current |= {offer: row} if row else {}
        sent = [({"offer": offer}, row and {"offer": offer, **row}, 0, "0") for offer, row in changes]
        bench.topic("offers").send_all(sent)
        bench.settle(query)
        found = {}
        for row in bench.folded().values():
            found[row["id"], row.get("n", 1)] = (row["offer"], row["price"], row["seller"])
        assert found == best(current, items, limit)
        plan = plan_of(query)
        assert (plan.count("Exchange hashpartitioning"), plan.count("TransformWithState ")) == (3, 4)
        assert "FoldStep" in plan
        if batch == 2:
            bench.stop()
            query = bench.start("s")
