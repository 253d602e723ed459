"""Rows that several sinks of an application read: made once per batch, handed to all of them.

Spark reads a source as often as it stands in a plan. An exchange between the rows and their readers is made once and
used again (``ReusedExchange``), provided what stands below it is equal for all. So nothing of a reader may get below:
the rows travel as an array of one struct, and a generator takes them out again. No condition and no projection moves
through a generator's own columns. Rows of one partition stay together and in order.

What keeps state is never equal to anything: Spark numbers stateful steps, and each has its own state. So the exchange
carries the name of its relation, and a rule of ours (``dsdagster.share.SharedSteps``) puts the first of that name in
the place of the others.
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
        whole: root of all its sinks.
        partitions: of the exchange.
        beside: further technical columns of rows that are of one record each.
    """

    whole: Node
    partitions: int
    beside: frozenset[str] = frozenset()
    _names: frozenset[str] = field(init=False)
    _made: dict[str, Flow] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._names = frozenset(name for name, count in readings(self.whole).items() if count > 1)

    def has(self, node: Node) -> bool:
        """Whether several read it."""
        return node.shared_name in self._names

    def wants(self, node: Node) -> frozenset[str]:
        """Technical columns that its readers may need."""
        if node.is_plain:
            return frozenset({names.EVENT_TIME, names.PARTITION, names.ORDER}) | self.beside
        time = [] if node.untimed else [names.EVENT_TIME]
        return frozenset([*time, names.WINDOW] if node.open_windows else time)

    def rows(self, node: Node, make: Callable[[], Flow]) -> Flow:
        """The node's rows after an exchange; ``make`` is called once."""
        name = node.shared_name
        if name not in self._made:
            flow = make()
            mark = "" if node.is_plain else SHARED_MARK + name
            self._made[name] = Flow(exchanged(flow.frame, self.partitions, mark, flow.timed), flow.timed)
        return self._made[name]


def exchanged(frame: DataFrame, partitions: int, mark: str, timed: bool) -> DataFrame:
    """The same rows, such that Spark makes them once for all that read this frame in one plan.

    Args:
        frame: of a node.
        partitions: of the exchange.
        mark: a name for rows of steps with state, unique in the plan; empty for others.
        timed: its time has Spark's watermark, and keeps it.
    """
    row = sf.struct(*[names.field(name) for name in frame.columns])
    rows = mark or _ROWS
    packed = frame.select(sf.array(row).alias(rows), sf.spark_partition_id().alias(_PLACE))
    unpacked = packed.repartition(partitions, _PLACE).select(sf.inline(names.field(rows)))
    if not timed:
        return unpacked
    marked = [carry_time(names.field(name), name) if name in _TIMED else names.field(name) for name in frame.columns]
    return unpacked.select(*marked)
