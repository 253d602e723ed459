"""Errands of versions: rename tables, let a version take over, or drop a version.

A new version of a stream continues where the former version stopped: its checkpoint is planned to that point, and the
batch up to there is recorded as written.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from ds_dagster.catalog.versions import KeepsVersions, RenamesTables
from ds_dagster.engine.changelog_hand_over import Version, drop_entity, hand_over, last_written, write_options
from ds_dagster.engine.start import Compiled, compiled, fence
from ds_dagster.places.trees import Place
from ds_dagster.runtime.checkpoint_switch import plan_switch
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.deciding.beside import is_refined, is_written_in_turn
from ds_dagster.runtime.host import Errand, HostContext, StartOrder
from ds_dagster.spark.cluster import close_ended_stores
from ds_dagster.spark.queries.sink_account import note_written


def run_errand(errand: Errand, context: HostContext, spark: SparkSession) -> None:
    """Rename tables, let a version replace the one that serves, or drop a version with its checkpoint.

    Raises:
        DsError: STREAM_NOT_HANDED_OVER, or a store fails.
    """
    job = compiled(replace(errand.order, progressed=False), context)
    if errand.kind == "rename" and errand.serving is not None:
        _rename_tables(compiled(replace(errand.serving, progressed=False), context), job)
        return
    if errand.serving is not None and is_written_in_turn(job.query):
        switch(spark, compiled(replace(errand.serving, progressed=False), context), job, context.checkpoints)
    elif is_refined(job.query):
        _change_rows(spark, errand, job, context)
    elif not is_written_in_turn(job.query):
        _change_tables(errand, job)
    if errand.kind == "drop":
        context.checkpoints.delete_all(errand.order.checkpoint_name)


def _rename_tables(former: Compiled, job: Compiled) -> None:
    """Streams and changelogs keep their topics, see ``runtime.deciding.renaming``."""
    for before, part in zip(former.query.parts, job.query.parts, strict=True):
        if before.sink.entity == part.sink.entity:
            continue
        store, kind, resolver = job.store(part.sink)
        assert isinstance(kind, RenamesTables)
        old, new = (kind.write_spec(store, item.sink, item.refresh) for item in (before, part))
        kind.rename_table(old, new, resolver)


def _change_rows(spark: SparkSession, errand: Errand, job: Compiled, context: HostContext) -> None:
    number = errand.order.place
    if errand.serving is None:
        drop_entity(job, number)
        return
    serving = compiled(replace(errand.serving, progressed=False), context)
    before, after = (
        Version(version, _place(context.checkpoints, version.order), place)
        for version, place in ((serving, errand.former), (job, number))
    )
    hand_over(spark, before, after)


def _change_tables(errand: Errand, job: Compiled) -> None:
    for part in job.query.parts:
        store, kind, resolver = job.store(part.sink)
        assert isinstance(kind, KeepsVersions)
        write = kind.write_spec(store, part.sink, part.refresh)
        if errand.kind == "serve":
            kind.serve_version(write, resolver, errand.former, errand.order.place)
        else:
            kind.drop_version(write, resolver, errand.order.place)


def switch(spark: SparkSession, serving: Compiled, job: Compiled, checkpoints: Checkpoints) -> None:
    """Let ``job`` continue exactly where ``serving`` stopped. Both must be stopped. Can be repeated.

    Raises:
        UserError: STREAM_NOT_HANDED_OVER.
        ExternalError: the store fails.
    """
    close_ended_stores(spark)
    place, former = (_place(checkpoints, version.order) for version in (job, serving))
    fence(spark, serving, former)
    last = last_written(spark, serving, former)
    has_state = any(node.is_stateful for node in job.query.plan.walk())
    planned = plan_switch(job.order.name, place, former, last, has_state=has_state)
    if planned is not None:
        options = write_options(spark, job, _place(checkpoints, job.order))  # the plan may have given it another folder
        note_written(spark, options, planned, job.query.entities)


def _place(checkpoints: Checkpoints, order: StartOrder) -> Place:
    return checkpoints.path(order.checkpoint_name, order.checkpoint_version)
