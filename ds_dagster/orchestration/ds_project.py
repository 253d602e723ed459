"""The project object that users pass around: a folder, loaded once per process, leniently."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ds_dagster.errors import ProjectError, error
from ds_dagster.names import safe_name
from ds_dagster.orchestration.props import BrokenFile, RelationProps, broken_files, relation_props
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.settings import NO_FILE, Settings, load_settings

if TYPE_CHECKING:
    import pyarrow


class DsProject:
    """A folder of streaming SQL.

    Args:
        root: folder with the settings (``pyproject.toml`` or ``ds.toml``).
        strict: raise on any mistake instead of showing it as a failing asset; by default only while Dagster validates
            definitions (``dagster definitions validate``, ``dg check defs``).
        name: needed for several projects in one code location: a suffix of ops, checks, sensor, job and resources
            (``ds_health_web``, ``prod_kafka_web``). Empty for a single project.
        key_prefix: parts before its asset keys, as a list or with slashes.
        select, exclude: asset selection strings of Dagster (``group:web``, ``kind:kafka``, ``key:"shop/public/a"+``):
            the relations that this code location shows; all by default. Relations left out remain dependencies.
        overrides: settings that win over file and environment (``store="x"``, ``environment="prod"``, …).

    Raises:
        UserError: PROJECT_NOT_FOUND for a folder with neither settings nor SQL, SETTING_INVALID, SETTING_UNKNOWN.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        strict: bool | None = None,
        name: str = "",
        key_prefix: str | Sequence[str] = (),
        select: str = "",
        exclude: str = "",
        **overrides: object,
    ) -> None:
        self.root = Path(root).resolve()
        self.settings: Settings = load_settings(self.root, **overrides)
        if self.settings.file == NO_FILE and not self.settings.sql.is_dir():
            raise error("PROJECT_NOT_FOUND", folder=str(self.root))
        self._strict = strict
        self.name = name
        self.key_prefix = prefix_parts(key_prefix)
        self.select, self.exclude = select, exclude
        self.surfaces: dict[int, tuple[object, object]] = {}
        self.mappers: dict[int, tuple[object, object]] = {}

    def with_store_values(self, values: Mapping[str, Mapping[str, str]]) -> "DsProject":
        """The same project with other values of store properties (see ``Settings.store_values``). Returns ``self``,
        with the project it has compiled, if no value changes."""
        merged = {**self.settings.store_values, **values}
        if merged == self.settings.store_values:
            return self
        changed = self.renamed(self.name, self.key_prefix)
        changed.settings = replace(self.settings, store_values=merged)
        return changed

    def renamed(self, name: str, key_prefix: str | Sequence[str]) -> "DsProject":
        """The same project under another name and asset key prefix."""
        changed = object.__new__(DsProject)
        changed.root, changed.settings, changed._strict = self.root, self.settings, self._strict
        changed.surfaces, changed.mappers = {}, {}
        changed.name, changed.key_prefix = name, prefix_parts(key_prefix)
        changed.select, changed.exclude = self.select, self.exclude
        return changed

    def narrowed(self, select: str = "", exclude: str = "") -> "DsProject":
        """The same project with other relations to show."""
        changed = self.renamed(self.name, self.key_prefix)
        changed.select, changed.exclude = select, exclude
        return changed

    def named(self, base: str) -> str:
        """A Dagster name of this project: ``base`` with the project's name as a suffix, if it has a name."""
        return f"{base}_{safe_name(self.name)}" if self.name else base

    @cached_property
    def project(self) -> LoadedProject:
        """The loaded project.

        Raises:
            ProjectError: when strict, and the SQL has mistakes.
        """
        loaded = load_project(self.root, settings=self.settings)
        if self.is_strict and loaded.errors:
            raise ProjectError(loaded.errors)
        return loaded

    @property
    def is_strict(self) -> bool:
        """Whether mistakes in the SQL raise :class:`ProjectError`."""
        if self._strict is not None:
            return self._strict
        return os.environ.get("DAGSTER_IS_DEFS_VALIDATION_CLI") == "1"

    @cached_property
    def props(self) -> tuple[RelationProps, ...]:
        """Every relation as the translator sees it, in the order of files."""
        return relation_props(self.project)

    @cached_property
    def streams(self) -> tuple[RelationProps, ...]:
        """Relations that long-lived queries fill, sources first."""
        queries = enumerate(self.project.queries.values())
        order = {sink.name: index for index, query in queries for sink in query.sinks}
        return tuple(
            sorted((p for p in self.props if p.is_stream), key=lambda props: order.get(props.name, len(order)))
        )

    @cached_property
    def broken_files(self) -> tuple[BrokenFile, ...]:
        """Files with mistakes that no relation shows."""
        return broken_files(self.project)

    def ask(self, sql: str) -> "pyarrow.Table":
        """The answer to a SELECT over views and tables, of one store or several.

        Args:
            sql: one SELECT of the dialect.

        Returns:
            A table with the columns of the SELECT; TIMESTAMP_LTZ in UTC.

        Raises:
            UserError: QUESTION_WITHOUT_END (streams and changelogs never end), QUESTION_TOO_LARGE, VIEW_MISSING,
                TABLE_NOT_LOADED, QUESTION_FAILED, and the conditions of expressions.
            ExternalError: VIEW_UNREADABLE, STORE_….
        """
        from ds_dagster.questions.answers import ask_text

        return ask_text(self.project, sql)

    def __repr__(self) -> str:
        return f"DsProject({str(self.root)!r})"


def prefix_parts(prefix: str | Sequence[str]) -> tuple[str, ...]:
    """Parts of an asset key prefix, written with slashes or as a list."""
    parts = prefix.split("/") if isinstance(prefix, str) else prefix
    return tuple(safe_name(part) for part in parts if part)
