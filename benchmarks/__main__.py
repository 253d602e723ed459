"""``python -m benchmarks``: ours against hand-written PySpark (and the servers' own tools), interleaved, as ratios.

    python -m benchmarks [--only filter,ctas] [--quick] [--runs 3] [--share 1.0] [--out benchmarks/out/bench.json]
    python -m benchmarks soak [--minutes 60] [--seed N]
    python -m benchmarks guard --against REV [--only filter,json]

Writes ``benchmarks/out/bench.json`` and prints a table; run it on an idle machine. ``soak`` is no measurement: it kills
and loads the example for a while and compares it with a model. ``guard`` compares two commits.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from benchmarks.measure import Result, Size, say, show, write

if TYPE_CHECKING:
    from benchmarks.house import House

OUT = Path(__file__).parent / "out" / "bench.json"


class Item(NamedTuple):
    """One benchmark: where it stands, which servers it needs (none: it runs without a house)."""

    where: str
    servers: tuple[str, ...]
    about: str


ITEMS: Mapping[str, Item] = {
    "filter": Item("throughput:filter_", ("kafka",), "Kafka → filter, project → Kafka"),
    "aggregate": Item("throughput:aggregate", ("kafka",), "Kafka → GROUP BY → changelog in Kafka"),
    "temporal": Item("throughput:temporal", ("kafka",), "clicks ⋈ versions of users → Kafka"),
    "filters": Item("filter_rules:pushdown", (), "a condition before a join of changelogs; the peer has it behind"),
    "operators": Item(
        "operator_speed:operators_",
        (),
        "each operator alone (operators/temporal: some); the peer is Spark's own nearest",
    ),
    "sizing": Item(
        "sizing:sizing",
        (),
        "a batch by rows, partitions and keys, for `ds size` (sizing/cluster: on executors of their own)",
    ),
    "hotkey": Item(
        "hot_keys:hot_keys",
        (),
        "a batch of one key with a million rows (hotkey/OVER: some); the peer is its first ones",
    ),
    "ctas": Item("tables:ctas", ("kafka", "postgres"), "CTAS into Postgres; the peer is the server's own binary COPY"),
    "cdc": Item(
        "cdc:changes", ("kafka", "postgres"), "changes of a table → Parquet, → Kafka; the peer is a Python loop"
    ),
    "cdc_many": Item(
        "cdc_many:many",
        ("postgres",),
        "1 and 10 CDC queries over one database (cdc_many/N: N); the peer reads a slot for each",
    ),
    "cdc_readers": Item(
        "cdc_readers:readers", ("postgres",), "like cdc_many without Spark: from a commit to rows (cdc_readers/N: N)"
    ),
    "cdc_latency": Item(
        "cdc_latency:latency",
        ("kafka", "postgres"),
        "commit → committed record in Kafka, step by step, 1 and 10 tables (cdc_latency/N: N); the peer's tasks read",
    ),
    "latency": Item("latency:latency", ("kafka",), "click → view, straight and through the temporal join"),
    "realtime": Item(
        "realtime:realtime", ("kafka",), "click → topic in real-time mode; the peer is the same query in batches"
    ),
    "application": Item("applications:three_sinks", ("kafka",), "an application of 3 sinks; the peer is 3 jobs"),
    "durability": Item(
        "durability:forced", ("kafka",), "small batches whose checkpoint is forced to disk; the peer's is not"
    ),
    "many": Item("jobs:many", ("kafka",), "1, 10, 50 jobs in one engine"),
    "at_once": Item("jobs:at_once", ("kafka",), "100 jobs applied at once; the peer is the target"),
    "recovery": Item(
        "recovery:recovery", (), "the example's ten jobs after kill -9 of their engine; the peer is the budget"
    ),
    "planners": Item(
        "planners:planners", (), "processes that plan for ten CDC sources; the peer is Spark's own way, one each"
    ),
    "kinesis": Item("kinesis_decode:decode", (), "GetRecords answers → Arrow; the peer is boto3"),
    "json": Item("json_rows:codec", (), "JSON records → columns and back; the peer is from_json and to_json"),
    "avro": Item("avro_decode:decode", (), "Avro records → columns; the peer is a loop over AvroDeserializer"),
    "protobuf": Item(
        "protobuf_decode:decode", (), "Protobuf records → columns; the peer is a loop over ProtobufDeserializer"
    ),
    "snowflake": Item("warehouse:load", (), "a batch into Snowflake's stand-in; the peer is PUT and COPY INTO"),
    "lake": Item("lake:load", (), "batches into a Delta table; the peer is bare delta-rs"),
    "cases": Item(
        "cases:per_case", (), "test cases in a session that is up; the peer is a bare query over a memory stream"
    ),
    "lookup": Item(
        "questions:lookup", (), "a key look-up in a view of a million rows; the peer is its budget of 10 ms"
    ),
    "load": Item("load_time:load", (), "a project of 1,000 relations; the peer is its budget"),
    "definitions": Item(
        "dagster_load:definitions", (), "Dagster definitions of 1,000 and 5,000 relations; the peer is their budget"
    ),
}


def main() -> int:
    """Run what was asked for. A run that is told to end (SIGTERM) ends its servers, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if sys.argv[1:2] == ["soak"]:
        from benchmarks.soak import main as soak

        return soak(sys.argv[2:])
    if sys.argv[1:2] == ["guard"]:
        from benchmarks.guard import main as guard

        return guard(sys.argv[2:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{name:10} {item.about}" for name, item in ITEMS.items()),
    )  # fmt: skip
    parser.add_argument("--only", default=",".join(ITEMS), help="names, with commas; operators/NAME: those with NAME")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--runs", type=int, help="measured runs of each side, default 3 (quick: 1)")
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of rows, for slow machines")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    names = asked.only.split(",")
    unknown = [name for name in names if name.partition("/")[0] not in ITEMS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; known: {', '.join(ITEMS)}")
    found = _run(names, Size(asked.quick, asked.runs or (1 if asked.quick else 3), asked.share), asked.out)
    show(found)
    say(f"written to {asked.out}")
    return 0


def _run(names: list[str], size: Size, out: Path) -> list[Result]:
    """One item after the other in one house; what is measured is written at once."""
    asked = [ITEMS[name.partition("/")[0]] for name in names]
    servers = list(dict.fromkeys(server for item in asked for server in item.servers))
    found: list[Result] = []

    def take(name: str, house: House | None) -> None:
        item, _, part = name.partition("/")
        say(f"--- {name}: {ITEMS[item].about}")
        module, _, function = ITEMS[item].where.partition(":")
        step = cast(Callable[..., list[Result]], getattr(import_module(f"benchmarks.{module}"), function))
        inputs = (house, size) if house is not None and ITEMS[item].servers else (size,)
        made = step(*inputs, part) if part else step(*inputs)
        found.extend(made)
        write(made, out)

    if not servers:
        for name in names:
            take(name, None)
        return found
    from benchmarks.house import open_house

    with open_house(servers) as house:
        for name in names:
            take(name, house)
    return found


if __name__ == "__main__":
    sys.exit(main())
