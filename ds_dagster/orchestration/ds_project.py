"""The project object that users pass around: a folder, loaded once per process, leniently."""

import os
from functools import cached_property
from pathlib import Path

from ds_dagster.errors import ProjectError
from ds_dagster.orchestration.props import RelationProps, relation_props
from ds_dagster.project import Project, load_project
from ds_dagster.settings import Settings, load_settings


class DsProject:
    """A folder of streaming SQL.

    Args:
        root: folder with the settings (``pyproject.toml`` or ``ds.toml``).
        strict: raise on any mistake instead of showing it as a failing asset; on by itself when Dagster validates definitions
            (``dagster definitions validate``, ``dg check defs``).
        overrides: settings that win over file and environment (``store="x"``, ``environment="prod"``, …).
    """

    def __init__(self, root: str | Path, *, strict: bool | None = None, **overrides: object) -> None:
        self.root = Path(root).resolve()
        self.settings: Settings = load_settings(self.root, **overrides)
        self._strict = strict

    @cached_property
    def project(self) -> Project:
        """The loaded project. Raises: ProjectError when strict and the SQL has mistakes."""
        loaded = load_project(self.root, settings=self.settings)
        if self.is_strict and loaded.errors:
            raise ProjectError(loaded.errors)
        return loaded

    @property
    def is_strict(self) -> bool:
        """Whether mistakes raise."""
        if self._strict is not None:
            return self._strict
        return os.environ.get("DAGSTER_IS_DEFS_VALIDATION_CLI") == "1"

    @cached_property
    def props(self) -> tuple[RelationProps, ...]:
        """Every relation as the translator sees it."""
        return relation_props(self.project)

    def __repr__(self) -> str:
        return f"DsProject({str(self.root)!r})"
