"""Rows of a relation → records of its entity: the columns that a stream sink needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from ds_dagster.catalog.io_spec import RecordPart, WriteSpec
from ds_dagster.catalog.relation import Relation
from ds_dagster.spark.records import columns as names
from ds_dagster.spark.records.columns import failure, field, opaque_condition, required
from ds_dagster.spark.records.formats import Target, encode_key, encode_key_text, encode_value


def encode_records(frame: DataFrame, relation: Relation, spec: WriteSpec) -> DataFrame:
    """The sink's columns from rows of its relation; a delete becomes a record without a value. A key that is longer
    than the sink allows fails the batch with RECORD_KEY_TOO_LONG.

    Args:
        frame: the relation's columns and, if rows may be deletes, ``DELETED``.
        relation: how records are keyed and written.
        spec: write spec of a stream sink.
    """
    deletes = names.DELETED in frame.columns
    target = Target(frame.sparkSession, relation, spec.entity, spec.schemas)
    parts = [PARTS[part](target, deletes).alias(name) for name, part in spec.record]
    records = frame.select(*parts)
    limited = [name for name, part in spec.record if part == "key_text"]
    if spec.max_key_characters is None or not limited:
        return records
    (key,) = limited
    length = sf.char_length(field(key))
    fails = failure("RECORD_KEY_TOO_LONG", entity=spec.entity, length=length, limit=str(spec.max_key_characters))
    return records.where(opaque_condition(required(length <= spec.max_key_characters, fails)))


def _key_bytes(target: Target, _deletes: bool) -> Column:
    key = encode_key(target)
    return sf.lit(None).cast("binary") if key is None else key.cast("binary")


def _key_text(target: Target, _deletes: bool) -> Column:
    """The key as text. Records without a key get a hash of their value as key, so a record that is written again goes
    to the same shard."""
    key = encode_key_text(target)
    return sf.hex(sf.xxhash64(encode_value(target))) if key is None else key


def _value_bytes(target: Target, deletes: bool) -> Column:
    value = encode_value(target).cast("binary")
    return sf.when(~sf.col(names.DELETED), value) if deletes else value


def _value_bytes_or_empty(target: Target, deletes: bool) -> Column:
    return sf.coalesce(_value_bytes(target, deletes), sf.lit(b""))


PARTS: Mapping[RecordPart, Callable[[Target, bool], Column]] = MappingProxyType(
    {
        "key_bytes": _key_bytes,
        "key_text": _key_text,
        "value_bytes": _value_bytes,
        "value_bytes_or_empty": _value_bytes_or_empty,
    }
)
"""Part of a record → its column from (target, whether rows may be deletes)."""
