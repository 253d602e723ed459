"""Base of store resources, with fields from the property table."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import dagster as dg
from pydantic import Field, PrivateAttr, create_model
from pydantic.config import JsonDict

from ds_dagster.catalog.entity import ProbeResult, RawRecord
from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.catalog.store import StoreAdmin, probe_through
from ds_dagster.errors import error
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.project.load import (
    LoadedProject,
    client_settings,
    project_of_store,
    properties_of_stores,
    secret_reader,
    store_admin,
)
from ds_dagster.runtime.processes.environment import engine_environment
from ds_dagster.settings import Settings

SECRET: JsonDict = {"dagster__is_secret": True}
"""Marks a field whose literal value Dagster's UI and GraphQL never show."""


@dataclass(frozen=True, slots=True)
class _Alone:
    """Replaces the project of a resource that has only its own store."""

    root: Path
    project: LoadedProject


class StoreResource(dg.ConfigurableResource[Any]):
    """A declared store for a user's own assets. One class per kind gives the vendor's own clients.

    Values that are not given come from ``CREATE STORE``. A resource in ``build_ds_definitions(resources={"<store>":
    …})`` replaces values, for the queries in the engine as well. A secret must be a ``dg.EnvVar``, which is passed on
    as a reference. The overlay of local servers wins over all values.
    """

    property_names: ClassVar[Mapping[str, str]] = {"uris": "uris"}
    """Field → WITH property of CREATE STORE."""
    store_kind: ClassVar[str] = ""
    """The kind of store of a class: the type in CREATE STORE, in upper case; empty for a base class."""

    uris: str | None = Field(default=None, description="address; replaces that of CREATE STORE")

    _project: "DsProject | _Alone | None" = PrivateAttr(default=None)
    _store: str = PrivateAttr(default="")

    def bind(self, project: DsProject, store: str) -> "StoreResource":
        """The same resource bound to a declared store, whose address it shows; ``build_ds_definitions`` calls this."""
        address = project.project.catalog.store(store).properties.get("uris")
        bound = self._with_updated_values({} if self.uris or address is None else {"uris": address.shown()})
        bound._project, bound._store = project, store
        return bound

    def standalone(self) -> "StoreResource":
        """The same resource with a store of its own, made from its fields: for unit tests without a project.

        Raises:
            UserError: RESOURCE_NOT_BOUND (a class that belongs to no kind of store), RESOURCE_LITERAL_SECRET.
        """
        if not self.store_kind:
            raise error("RESOURCE_NOT_BOUND", type=type(self).__name__)
        values = {name: PropertyValue(text) for name, text in self.store_values().items()}
        root = Path.cwd()
        settings = Settings(root=root, sql=root / "sql", state=root / ".ds")
        bound = self._with_updated_values({})
        project, bound._store = project_of_store(self.store_kind, values, settings)
        bound._project = _Alone(root, project)
        return bound

    def probe(self) -> ProbeResult:
        """Whether the store answers and accepts the login."""
        return probe_through(self.admin())

    @contextmanager
    def admin(self) -> Iterator[StoreAdmin]:
        """Look at, create and list entities; closed at the end of the ``with``."""
        project, name, resolver = self._bound()
        admin = store_admin(project.project, name, resolver)
        try:
            yield admin
        finally:
            admin.close()

    def records(self, entity: str, *, limit: int = 10, from_beginning: bool = True) -> list[RawRecord]:
        """The first (or next) records of an entity, raw."""
        with self.admin() as admin:
            return list(admin.records(entity, from_beginning=from_beginning, limit=limit, stopped=lambda: False))

    def client_settings(self) -> dict[str, Any]:
        """Settings of the vendor's client, secrets resolved: keep them out of logs."""
        project, name, resolver = self._bound()
        return dict(client_settings(project.project, name, resolver))

    def store_values(self) -> dict[str, str]:
        """Property → reference or literal of the fields that were given.

        Raises:
            UserError: RESOURCE_LITERAL_SECRET.
        """
        values: dict[str, str] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value is None or name not in self.property_names:
                continue
            if isinstance(value, dg.EnvVar):
                values[self.property_names[name]] = "${" + value.env_var_name + "}"
                continue
            is_secret = isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("dagster__is_secret")
            if is_secret and not PropertyValue(str(value)).is_only_references:
                raise error("RESOURCE_LITERAL_SECRET", store=type(self).__name__, field=name)
            values[self.property_names[name]] = str(value)
        return values

    def _with_updated_values(self, values: Mapping[str, Any] | None) -> "StoreResource":
        """A copy bound to the same store: Dagster makes a copy for every run."""
        copied = cast("StoreResource", super()._with_updated_values(values))
        copied._project, copied._store = self._project, self._store
        return copied

    def _bound(self) -> "tuple[DsProject | _Alone, str, Resolver]":
        project, name = self._project, self._store
        if project is None:
            raise error("RESOURCE_NOT_BOUND", type=type(self).__name__)
        environment = engine_environment(project.root)
        secrets = secret_reader(project.project, environment)

        def resolver(value: PropertyValue) -> str:
            return resolve(value, environment, f"store {name}", secrets)

        return project, name, resolver


R = TypeVar("R", bound=StoreResource)
ELSEWHERE = frozenset({"type", "description", "config_file"})
"""Properties of CREATE STORE that are not connection values."""


def of_kind(word: str) -> Callable[[type[R]], type[R]]:
    """Decorator: adds a field for every property of a kind of store that the class does not map yet, named like the
    property with underscores. Secrets are masked. ``word`` is the type in CREATE STORE, in any case."""
    kind = word.upper()

    def decorate(base: type[R]) -> type[R]:
        named = set(base.property_names.values()) | ELSEWHERE
        takes = (spec for spec in properties_of_stores()[kind] if not spec.not_yet)
        specs = (spec for spec in takes if named.isdisjoint({spec.name, *spec.aliases}))
        missing = {spec.name.replace(".", "_"): spec for spec in specs}
        fields: dict[str, Any] = {
            field: (
                str | None,
                Field(default=None, description=spec.doc, json_schema_extra=SECRET if spec.secret else None),
            )
            for field, spec in missing.items()
        }
        resource_class: type[R] = create_model(base.__name__, __base__=base, __module__=base.__module__, **fields)
        resource_class.__doc__ = base.__doc__
        resource_class.property_names = {**base.property_names, **{field: spec.name for field, spec in missing.items()}}
        resource_class.store_kind = kind
        return resource_class

    return decorate


@lru_cache(maxsize=64)
def plugin_class(kind: str) -> type[StoreResource]:
    """The resource class of a kind of store without a class here."""
    return of_kind(kind)(StoreResource)
