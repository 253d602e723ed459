"""The list of store kinds. Other packages add kinds through the entry-point group ``ds_dagster.stores`` (each entry
point names a class that implements ``catalog.store.StoreKind`` and takes no arguments)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from ds_dagster.catalog.store import StoreKind
from ds_dagster.errors import error
from ds_dagster.stores.databricks.kind import Databricks
from ds_dagster.stores.delta.kind import Delta
from ds_dagster.stores.kafka.kind import Kafka
from ds_dagster.stores.kinesis.kind import Kinesis
from ds_dagster.stores.later import REASONS, LaterKind
from ds_dagster.stores.memory.kind import Memory
from ds_dagster.stores.postgres.kind import Postgres
from ds_dagster.stores.s3.kind import S3
from ds_dagster.stores.snowflake.kind import Snowflake
from ds_dagster.stores.sqlite.views import SqliteViews

GROUP = "ds_dagster.stores"


def built_in() -> tuple[StoreKind, ...]:
    """The kinds of this package; those not supported yet come last."""
    return (
        Kafka(),
        Kinesis(),
        Postgres(),
        Snowflake(),
        Delta(),
        Databricks(),
        S3(),
        SqliteViews(),
        Memory(),
        *(LaterKind(name, reason) for name, reason in REASONS),
    )


def by_name(kinds: Iterable[StoreKind]) -> Mapping[str, StoreKind]:
    """Kinds by name and alias.

    Raises:
        UserError: STORE_KIND_TWICE.
    """
    by_kind: dict[str, StoreKind] = {}
    for kind in kinds:
        for name in (kind.name, *kind.aliases):
            if name in by_kind:
                raise error("STORE_KIND_TWICE", name=name)
            by_kind[name] = kind
    return MappingProxyType(by_kind)


def load_kinds(points: Iterable[EntryPoint] | None = None) -> Mapping[str, StoreKind]:
    """Kinds of this package and of installed ones.

    Args:
        points: entry points instead of the installed ones (tests).

    Raises:
        UserError: STORE_KIND_TWICE, STORE_KIND_BROKEN.
    """
    others: list[StoreKind] = []
    for point in entry_points(group=GROUP) if points is None else points:
        try:
            others.append(point.load()())
        except (ImportError, AttributeError, TypeError) as problem:
            raise error("STORE_KIND_BROKEN", name=point.name, source=point.value, detail=str(problem)) from problem
    return by_name((*built_in(), *others))


KINDS: Mapping[str, StoreKind] = load_kinds()
