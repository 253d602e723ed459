"""Several sinks of one query: an application's plans as one frame, each batch handed to every sink.

Every sink keeps to exactly once by its own means, under an identity of its own: transactions and ledgers know the
batch's number, so that a batch that is repeated because a later sink failed is written only where it was not.
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
    """The function Spark calls with every batch of an application.

    The batch is computed once, by what the first sink does with it, and kept until the last one has it: a second
    computation would run the stateful plan twice.
    """

    def __init__(self, sinks: Sequence[SinkPlan]) -> None:
        self.sinks = tuple(sinks)

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Write one batch into every sink, in the order of the statements.

        Raises:
            DsError: of a sink; the batch fails as a whole and is run again by the next start.
        """
        with operators(batch.sparkSession).rows_of_sinks(batch) as rows_of:
            for number, sink in enumerate(self.sinks):
                sink.writer(rows_of(number), epoch)


def combined(sinks: Sequence[SinkPlan]) -> DataFrame:
    """All sinks' rows as one frame: the sink's number, and its columns as a struct that is NULL for other sinks."""
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
