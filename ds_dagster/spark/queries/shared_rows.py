"""Rows that several sinks of an application read: computed once per batch for all of them.

Spark reads a source as often as a plan contains it. But it computes an exchange once and reuses it (``ReusedExchange``)
if the plans below are equal. So the optimizer must move nothing from a reader below the exchange: each row is packed
into an array of one struct, and a generator unpacks it. Conditions and projections do not move through a generator's
own columns. Rows of one partition stay together and in order.

Two stateful steps are never equal: Spark numbers them, and each has its own state. So their exchange carries the name
of its relation, and our rule ``dsdagster.planning.SharedSteps`` replaces all exchanges of a name by the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.plan.nodes.application import readings
from ds_dagster.plan.nodes.node import Node
from ds_dagster.spark.clocks.ticks import carry_time
from ds_dagster.spark.flow import Flow
from ds_dagster.spark.jvm import SHARED_MARK
from ds_dagster.spark.records import columns as names

_ROWS = "__rows"
_PLACE = "__place"
_TIMED = (names.EVENT_TIME, names.WINDOW)


@dataclass(slots=True)
class SharedRows:
    """Rows of one application's plan.

    Attributes:
        whole: root over all its sinks.
        partitions: number of partitions of the exchange.
        beside: additional technical columns of rows that are from one record each.
    """

    whole: Node
    partitions: int
    beside: frozenset[str] = frozenset()
    _names: frozenset[str] = field(init=False)
    _made: dict[str, Flow] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._names = frozenset(name for name, count in readings(self.whole).items() if count > 1)

    def has(self, node: Node) -> bool:
        """Whether several nodes read it."""
        return node.shared_name in self._names

    def wants(self, node: Node) -> frozenset[str]:
        """Technical columns that its readers may need."""
        if node.is_plain:
            return frozenset({names.EVENT_TIME, names.PARTITION, names.ORDER}) | self.beside
        time = [] if node.untimed else [names.EVENT_TIME]
        return frozenset([*time, names.WINDOW] if node.open_windows else time)

    def rows(self, node: Node, make: Callable[[], Flow]) -> Flow:
        """The node's rows after an exchange; ``make``, which compiles them, is called once per node."""
        name = node.shared_name
        if name not in self._made:
            flow = make()
            mark = "" if node.is_plain else SHARED_MARK + name
            self._made[name] = Flow(exchanged(flow.frame, self.partitions, mark, flow.timed), flow.timed)
        return self._made[name]


def exchanged(frame: DataFrame, partitions: int, mark: str, timed: bool) -> DataFrame:
    """The rows after an exchange that Spark computes once for all readers in one plan.

    Args:
        frame: rows of a node.
        partitions: number of partitions of the exchange.
        mark: for rows of stateful steps, a name that is unique in the plan; else empty.
        timed: the frame's event time has Spark's watermark; the result has it too.
    """
    row = sf.struct(*[names.field(name) for name in frame.columns])
    rows = mark or _ROWS
    packed = frame.select(sf.array(row).alias(rows), sf.spark_partition_id().alias(_PLACE))
    unpacked = packed.repartition(partitions, _PLACE).select(sf.inline(names.field(rows)))
    if not timed:
        return unpacked
    marked = [carry_time(names.field(name), name) if name in _TIMED else names.field(name) for name in frame.columns]
    return unpacked.select(*marked)
