"""The environment commands resolve references in: the process's own, then the project's ``.env``."""

from __future__ import annotations

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.values import PropertyValue, resolve
from ds_dagster.runtime.environment import engine_environment
from ds_dagster.settings import Settings


def resolver(settings: Settings, store: str) -> Resolver:
    """Resolves property values of one store for a command."""
    environment = engine_environment(settings.root)

    def resolve_value(value: PropertyValue) -> str:
        return resolve(value, environment, used_by=f"store {store}")

    return resolve_value
