"""Hand-over of a changelog: the version that takes over writes the difference to the public entity.

Readers keep their positions and see one transaction, which updates and deletes keys. The former version keeps a copy
of its rows in its own entity, so that it can take over again. Both writes are recorded under the name of this
hand-over, so they can be repeated after a kill.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ds_dagster.catalog.ledger import Tip
from ds_dagster.catalog.store import MarkerReader
from ds_dagster.engine.start import Compiled, at_entity, ensured, entity_of, fence
from ds_dagster.errors import DsError, error
from ds_dagster.places.trees import Place
from ds_dagster.spark.faults import SPARK_ERRORS, classify
from ds_dagster.spark.jvm import operators
from ds_dagster.spark.queries.batch_writers import sink_options
from ds_dagster.spark.queries.checkpoint_tip import checkpoint_tip
from ds_dagster.spark.queries.sink_account import note_written, sources_text
from ds_dagster.spark.queries.source_identity import SOURCES, TARGETS, remember, remembered
from ds_dagster.spark.session import active

_LOG = logging.getLogger(__name__)
KEY, VALUE = "key", "value"
READ: Mapping[str, str] = {
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "kafka.isolation.level": "read_committed",
}


@dataclass(frozen=True, slots=True)
class Version:
    """A version whose query is stopped.

    Attributes:
        job: its definition and order.
        checkpoint: folder of its checkpoint.
        number: number of the version; its own entity has this number.
    """

    job: Compiled
    checkpoint: Place
    number: int


def hand_over(spark: SparkSession, serving: Version, taking: Version) -> None:
    """Let ``taking`` write the public entity, and drop its own entity. Can be repeated.

    Raises:
        UserError: STREAM_NOT_HANDED_OVER, if ``taking`` has finished no batch.
        ExternalError: the store fails.
    """
    for version in (serving, taking):
        fence(spark, version.job, version.checkpoint)
    request = f"{serving.job.order.incarnation}-{taking.job.order.incarnation}"
    _move(spark, serving, (0, serving.number), request)
    if not _move(spark, taking, (taking.number, 0), request):
        reason = "the new version has finished no batch yet"
        raise error("STREAM_NOT_HANDED_OVER", name=taking.job.order.name, reason=reason)
    try:
        drop_entity(taking.job, taking.number)
    except DsError as problem:  # the public entity is written, so this is not a reason to give up
        _LOG.warning("%s: the entity of version %s is not dropped: %s", taking.job.order.name, taking.number, problem)


def last_written(spark: SparkSession, job: Compiled, place: Place, version: int = 0) -> int | None:
    """Number of the last batch in the entity of a version: the planned batch if the marker names it, else the last
    committed one; None if nothing was written."""
    tip = checkpoint_tip(spark, str(place))
    marker = _marker(job, job.order.identity.ledger, entity_of(job, job.query.sink, version))
    if tip.planned is not None and marker is not None and tip.planned.is_same(marker):
        return tip.planned.batch
    return None if tip.committed is None else tip.committed.batch


def write_options(spark: SparkSession, job: Compiled, place: Place, version: int = 0) -> Mapping[str, str]:
    """Options of the transactional sink of a version, with its checkpoint."""
    sink = job.query.sink
    store, kind, resolver = job.store(sink)
    write = at_entity(job, sink, kind.write_spec(store, sink, "continuous"), version)
    sources = sources_text(remembered(spark, str(place), SOURCES))
    return {**sink_options(write, job.order.identity, resolver), "checkpoint": str(place), "sources": sources}


def drop_entity(job: Compiled, version: int) -> None:
    """Drop the entity of a version that does not serve; does nothing if it does not exist.

    Raises:
        DsError: the store fails.
    """
    sink = job.query.sink
    store, kind, resolver = job.store(sink)
    entity = entity_of(job, sink, version)
    with closing(kind.admin(store, resolver)) as admin:
        operations = admin.operations()
        path = operations.path_of(replace(sink, entity=entity))
        if entity == sink.entity or operations.describe(path) is None:
            return
        try:
            operations.drop(path)
        except DsError as problem:
            if problem.condition != "ENTITY_NOT_FOUND":  # another engine was faster: the query moves between pools
                raise


def _move(spark: SparkSession, version: Version, places: tuple[int, int], request: str) -> bool:
    """Make the rows of the second entity equal to those of the first, and record the version's last batch there.

    Args:
        places: version numbers of the two entities; 0 is the public one.

    Returns:
        Whether the version has finished a batch; if not, nothing is written.
    """
    job, place = version.job, version.checkpoint
    source, target = (write_options(spark, job, place, number) for number in places)
    group = f"{target['marker.group']}-{request}"
    operators(spark).fence_transaction({**target, "checkpoint": "", "marker.group": group})  # finish what is decided
    moved = _marker(job, group, target["topic"])
    batch = last_written(spark, job, place, places[0]) if moved is None else moved.batch
    if batch is None:
        return False
    if moved is None:
        _ensure_target(spark, job, place, target["topic"])
        _write_difference(spark, job, source, {**target, "marker.group": group, "epoch": str(batch)})
    note_written(spark, target, batch, job.query.entities)
    return True


def _ensure_target(spark: SparkSession, job: Compiled, place: Place, entity: str) -> None:
    """Create the entity if it is missing, and record its identity in the checkpoint: it may be new under its name."""
    sink = job.query.sink
    facts = ensured(job, replace(sink, entity=entity))
    before = remembered(spark, str(place), TARGETS)
    remember(spark, str(place), TARGETS, before, {f"{sink.store}.{entity}": facts.identity})


def _write_difference(spark: SparkSession, job: Compiled, source: Mapping[str, str], target: Mapping[str, str]) -> None:
    store, kind, _ = job.store(job.query.sink)
    name = kind.write_spec(store, job.query.sink, "continuous").format
    try:
        with active(spark):
            rows = differing(live_rows(spark, target), live_rows(spark, source))
            rows.write.format(name).options(**target).mode("append").save()
    except SPARK_ERRORS as problem:
        raise classify(problem, job.query.entities) from problem
    finally:
        operators(spark).release_transaction(job.order.identity.job)


def _marker(job: Compiled, group: str, entity: str) -> Tip | None:
    store, kind, resolver = job.store(job.query.sink)
    with closing(kind.admin(store, resolver)) as admin:
        assert isinstance(admin, MarkerReader)
        marker: Tip | None = admin.marker(group, entity)
        return marker


def live_rows(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Key and value of the newest committed record of each key; the value of a tombstone is NULL. If several partitions
    have the key (their number has changed), the record with the newest timestamp wins."""
    client = {name: text for name, text in options.items() if name.startswith("kafka.")}
    records = spark.read.format("kafka").options(**client, **READ, subscribe=options["topic"]).load()
    newest = sf.max_by(sf.struct(VALUE, "timestamp"), "offset")
    parts = records.where(sf.col(KEY).isNotNull()).groupBy(KEY, "partition").agg(newest.alias("newest"))
    record = sf.max_by(sf.struct(f"newest.{VALUE}"), "newest.timestamp")
    return parts.groupBy(KEY).agg(record.alias("record")).select(KEY, sf.col(f"record.{VALUE}").alias(VALUE))


def differing(before: DataFrame, after: DataFrame) -> DataFrame:
    """Records that turn the rows ``before`` into the rows ``after``: updates, and tombstones for missing keys."""
    old, new = before.withColumnRenamed(VALUE, "old"), after.withColumnRenamed(VALUE, "new")
    joined = old.join(new, KEY, "full_outer").where(~sf.col("old").eqNullSafe(sf.col("new")))
    return joined.select(KEY, sf.col("new").alias(VALUE))
