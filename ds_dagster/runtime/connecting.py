"""Commands resolve references here: from the process's environment, the project's ``.env``, and its secrets."""

from __future__ import annotations

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.project.load import load_project, secret_reader
from ds_dagster.runtime.processes.environment import engine_environment
from ds_dagster.settings import Settings


def resolver(settings: Settings, store: str) -> Resolver:
    """Resolves property values of one store for a command. The project is loaded only if a value names a secret."""
    environment = engine_environment(settings.root)

    def read_secret(name: str, used_by: str) -> str:
        return secret_reader(load_project(settings.root, settings=settings), environment)(name, used_by)

    def resolve_value(value: PropertyValue) -> str:
        return resolve(value, environment, f"store {store}", read_secret)

    return resolve_value
