"""Checks of a project for a Spark cluster: settings it cannot honour, and folders that executors do not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.properties.values import path_in
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.plan.binding.assemble import Assembled
from ds_dagster.settings import Settings
from ds_dagster.stores.registry import KINDS

REFUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "spark.speculation": ("false", "two attempts of a task would write the state of one partition"),
        "spark.dynamicAllocation.enabled": (
            "false",
            "streaming queries never release executors in time, and state has its partitions from their cores",
        ),
        "spark.sql.adaptive.enabled": (
            "false",
            "a plan that changes with a batch would change how its state is divided",
        ),
        "spark.submit.deployMode": ("client", "the engine is the driver"),
    }
)
"""Spark property → (the only value allowed on a cluster, reason)."""
SQLITE = "sqlite"
_FILE = "file"
_AUTHORITY = "tls.ca_cert_file"
"""The one file of a login that executors open; the text of others travels with the job."""
_STREAMS = ("stream", "changelog")
"""Relations that executors read and write; tables and views are written by the driver."""


def cluster_problems(project: Assembled, settings: Settings) -> Iterator[Diagnostic]:
    """Mistakes of a project that runs on a cluster; none for local engines."""
    if not settings.engine.is_cluster:
        return
    for name, (allowed, reason) in REFUSED.items():
        value = settings.spark.get(name, allowed)
        if value.strip().lower() != allowed:
            problem = error("CLUSTER_SETTING_REFUSED", name=name, value=value, reason=reason, allowed=allowed)
            yield problem.diagnostic()
    yield from _folders(project.catalog, settings)
    yield from _sqlite(project.catalog, settings)


def _folders(catalog: Catalog, settings: Settings) -> Iterator[Diagnostic]:
    """Errors for folders that executors read or write and do not share with the driver."""
    master = settings.engine.master
    if not settings.engine.shares(settings.state):
        for what in _in_state(catalog, settings):
            folder = str(settings.state)
            yield error("CLUSTER_NEEDS_SHARED_FOLDER", what=what, folder=folder, master=master).diagnostic()
    for function in chain.from_iterable(catalog.functions.functions.values()):
        if function.language == "java" and not settings.engine.shares(Path(function.file)):
            what, span = f"the jar of function {function.name}", function.origin.span
            problem = error("CLUSTER_NEEDS_SHARED_FOLDER", span=span, what=what, folder=function.file, master=master)
            yield problem.diagnostic()
    for store in catalog.stores.values():
        for what, place in _places(store, catalog, settings):
            if not settings.engine.shares(place):
                problem = error(
                    "CLUSTER_NEEDS_SHARED_FOLDER", span=store.span, what=what, folder=str(place), master=master
                )
                yield problem.diagnostic()


def _in_state(catalog: Catalog, settings: Settings) -> Iterator[str]:
    """What executors read or write in the state folder."""
    if not settings.checkpoints.in_bucket:
        yield "the setting state"
        return
    for store in catalog.stores.values():
        copies_tables = KINDS[store.kind].capabilities.keeps_slot  # into files of the state folder, when a query begins
        if copies_tables and _has_streams(store, catalog):
            yield f"the setting state, which holds the first rows of store {store.name},"


def _has_streams(store: StoreDefinition, catalog: Catalog) -> bool:
    relations = catalog.relations.values()
    return any(relation.store == store.name and relation.kind in _STREAMS for relation in relations)


def _places(store: StoreDefinition, catalog: Catalog, settings: Settings) -> Iterator[tuple[str, Path]]:
    """What executors read or write of a store on their own hosts."""
    address = store.properties.get("uris")
    parts = urlsplit(str(address.value)) if address is not None else None
    if parts is not None and parts.scheme == _FILE:
        yield f"the folder of store {store.name}", Path(unquote(parts.path)).resolve()
    authority = store.properties.get(_AUTHORITY)
    if authority is not None and not authority.is_reference and _has_streams(store, catalog):
        yield f"{_AUTHORITY} of store {store.name}", path_in(settings.root, authority)


def _sqlite(catalog: Catalog, settings: Settings) -> Iterator[Diagnostic]:
    """Errors for a journal or views in SQLite, whose files would be in a folder that several hosts mount."""
    is_own_folder = settings.checkpoints.in_bucket and not settings.engine.shares(settings.state)
    if not settings.engine.has_other_hosts or is_own_folder:
        return
    folder, has_views = str(settings.state), any(r.store == SQLITE for r in catalog.relations.values())
    if settings.journal == SQLITE:
        allowed = "a Postgres URL, or a ${NAME} reference to one"
        yield error("CLUSTER_NEEDS_POSTGRES", name="journal", folder=folder, allowed=allowed).diagnostic()
    if has_views:
        allowed = "the name of a declared Postgres store"
        yield error("CLUSTER_NEEDS_POSTGRES", name="views", folder=folder, allowed=allowed).diagnostic()
