"""Rows that several sinks of an application read: made once per batch, handed to all of them.

Spark reads a source as often as it stands in a plan. An exchange between the rows and their readers is made once and
used again (``ReusedExchange``), provided what stands below it is equal for all. So nothing of a reader may get below:
the rows travel as an array of one struct, and a generator takes them out again. No condition and no projection moves
through a generator's own columns. Rows of one partition stay together and in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ds_dagster.plan.application_nodes import Bundle, is_plain, readings, shared_name
from ds_dagster.plan.nodes import Node
from ds_dagster.spark import columns as names

_ROWS = "__rows"
_PLACE = "__place"


@dataclass(slots=True)
class SharedRows:
    """Rows of one application's plan.

    Attributes:
        partitions: of the exchange.
    """

    bundle: Bundle
    partitions: int
    _names: frozenset[str] = field(init=False)
    _made: dict[str, DataFrame] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._names = frozenset(name for name, count in readings(self.bundle).items() if count > 1)

    def has(self, node: Node) -> bool:
        """Whether several read it, and nothing is kept below."""
        return shared_name(node) in self._names and is_plain(node)

    def rows(self, node: Node, make: Callable[[], DataFrame]) -> DataFrame:
        """The node's rows behind an exchange; ``make`` is called once."""
        name = shared_name(node)
        if name not in self._made:
            self._made[name] = exchanged(make(), self.partitions)
        return self._made[name]


def exchanged(frame: DataFrame, partitions: int) -> DataFrame:
    """The same rows, such that Spark makes them once for all that read this frame in one plan."""
    row = sf.struct(*[names.field(name) for name in frame.columns])
    packed = frame.select(sf.array(row).alias(_ROWS), sf.spark_partition_id().alias(_PLACE))
    return packed.repartition(partitions, _PLACE).select(sf.inline(_ROWS))
