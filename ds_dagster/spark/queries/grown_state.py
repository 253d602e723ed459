"""The groups in a checkpoint in another form: with added results, or in the other kind of state store, see
``dsdagster.checkpoint.GrownState``."""

from __future__ import annotations

from typing import Any

from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.gateway import package
from ds_dagster.spark.queries.prepared import PreparedQuery
from ds_dagster.spark.session import STATE_STORE_CLASS


def lacks_results(query: PreparedQuery, checkpoint: str) -> bool:
    """Whether the groups in a checkpoint lack results of a query's only aggregate.

    Args:
        query: not started.
        checkpoint: with the state of a finished batch.

    Raises:
        DsError: CHECKPOINT_OTHER_GROUPS, CHECKPOINT_UNREADABLE; failures of Spark are classified.
    """
    try:
        return bool(_java(query).isNeeded(query.frame._jdf, query.output_mode, checkpoint))
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem


def store_class(query: PreparedQuery) -> str:
    """The class of the state store that a query asks for."""
    return str(query.session.conf.get(STATE_STORE_CLASS))


def add_results(query: PreparedQuery, checkpoint: str, target: str, batch: int) -> int:
    """Write the groups of a checkpoint with the results that they lack, as they are before the first row, into the kind
    of state store that the query asks for.

    Args:
        query, checkpoint: as for :func:`lacks_results`.
        target: a copy of the checkpoint without state.
        batch: the last finished batch of the checkpoint.

    Returns:
        The number of groups.

    Raises:
        DsError: as :func:`lacks_results`.
    """
    try:
        return int(_java(query).write(query.frame._jdf, query.output_mode, checkpoint, target, batch))
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem


def move_groups(query: PreparedQuery, checkpoint: str, target: str, batch: int) -> int:
    """Write the groups of a checkpoint into the kind of state store that the query asks for.

    Args, Returns and Raises as :func:`add_results`.
    """
    try:
        return int(_java(query).move(query.session._jsparkSession, checkpoint, target, batch))
    except SPARK_ERRORS as problem:
        raise classify(problem) from problem


def _java(query: PreparedQuery) -> Any:
    return package(query.session, "dsdagster.checkpoint").GrownState
