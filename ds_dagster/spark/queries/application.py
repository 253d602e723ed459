"""Several sinks of one query: an application's plans as one frame; every sink gets each batch.

Each sink has its own identity, and a transaction or ledger with the batch's number. So if a batch is repeated because a
later sink failed, only the sinks that do not have it yet write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.batch_writers import SinkPlan

_SINK = "__sink"


class ApplicationWriter:
    """The function that Spark calls with every batch of an application.

    The batch is computed once, when the first sink reads it, and cached until the last sink has it: a second
    computation would run the stateful plan twice.
    """

    def __init__(self, sinks: Sequence[SinkPlan]) -> None:
        self.sinks = tuple(sinks)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch to every sink, in the order of the statements.

        Raises:
            DsError: a sink fails; the whole batch fails, and the next start repeats it.
        """
        with operators(batch.sparkSession).rows_of_sinks(batch) as rows_of:
            for number, sink in enumerate(self.sinks):
                sink.writer(rows_of(number), epoch)


def combined(sinks: Sequence[SinkPlan]) -> DataFrame:
    """The rows of all sinks as one frame: the number of a row's sink, and a struct per sink, NULL for other sinks."""
    frames = [
        sink.rows().select(sf.lit(number).alias(_SINK), *_payloads(sinks, number)) for number, sink in enumerate(sinks)
    ]
    return reduce(DataFrame.union, frames)


def _payloads(sinks: Sequence[SinkPlan], own: int) -> list[Column]:
    payloads = []
    for number, sink in enumerate(sinks):
        value = sf.struct("*") if number == own else sf.lit(None).cast(sink.frame.schema)
        payloads.append(value.alias(f"{_SINK}_{number}"))
    return payloads
