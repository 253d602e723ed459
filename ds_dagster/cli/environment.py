"""The environment commands resolve references in: the process's own, then the project's ``.env``."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.values import PropertyValue, resolve
from ds_dagster.runtime.environment import read_dotenv
from ds_dagster.settings import Settings


def environment_of(settings: Settings) -> Mapping[str, str]:
    """Variables by name; the project's ``.env`` fills in what the process does not have."""
    return {**read_dotenv(settings.root), **os.environ}


def resolver(settings: Settings, store: str) -> Resolver:
    """Resolves property values of one store for a command."""
    environment = environment_of(settings)

    def resolve_value(value: PropertyValue) -> str:
        return resolve(value, environment, used_by=f"store {store}")

    return resolve_value
