"""Writes a new project: settings, SQL to start from, a test case, and the files that Dagster needs to load it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ds_dagster.errors import error

PROJECT: Mapping[str, str] = MappingProxyType(
    {
        "ds.toml": "ds.toml.txt",
        "sql/stores.sql": "sql/stores.sql.txt",
        "sql/orders.sql": "sql/orders.sql.txt",
        "tests/orders.case.yaml": "tests/orders.case.yaml.txt",
        ".gitignore": "gitignore.txt",
        ".env.example": "env.txt",
    }
)
DAGSTER: Mapping[str, str] = MappingProxyType(
    {
        "definitions.py": "definitions.py.txt",
        "workspace.yaml": "workspace.yaml.txt",
        "dagster.yaml": "dagster.yaml.txt",
    }
)
"""File of the new project → file of this package. The suffix keeps tools away from the templates."""

CI: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "github": {".github/workflows/streaming-sql.yml": "github.yml.txt", "requirements.txt": "requirements.txt.txt"},
        "gitlab": {".gitlab-ci.yml": "gitlab.yml.txt", "requirements.txt": "requirements.txt.txt"},
    }
)
"""CI service → its files, which check a change, show what it would do, and deploy it."""


def write_project(folder: Path, with_dagster: bool = True, ci: str = "") -> list[Path]:
    """Write a small project that compiles and whose test passes.

    Args:
        folder: made when missing; other files in it are left alone.
        with_dagster: also ``definitions.py``, ``workspace.yaml`` and ``dagster.yaml``.
        ci: also the files of :data:`CI` for this service; an existing project gets only these.

    Returns:
        The files that were written, in order.

    Raises:
        UserError: FOLDER_NOT_EMPTY when one of the files is there already (nothing is written then),
            FOLDER_NOT_WRITABLE.
    """
    if ci and is_project(folder):
        return _write_all(folder, CI[ci])
    chosen = {**PROJECT, **(DAGSTER if with_dagster else {}), **CI.get(ci, {})}
    return _write_all(folder, chosen, "pyproject.toml" if _has_settings(folder) else "")


def is_project(folder: Path) -> bool:
    """Whether a folder has settings of a project."""
    return (folder / "ds.toml").is_file() or _has_settings(folder)


def _write_all(folder: Path, chosen: Mapping[str, str], but: str = "") -> list[Path]:
    for name in (*chosen, but) if but else chosen:
        if (folder / name).exists() and not _may_stay(folder / name):
            raise error("FOLDER_NOT_EMPTY", file=str(folder / name))
    source = Path(__file__).with_name("template_files")
    return [
        written
        for name, template in chosen.items()
        if (written := _written(source, template, folder / name)) is not None
    ]


def _has_settings(folder: Path) -> bool:
    """Whether the folder's pyproject.toml already has settings."""
    file = folder / "pyproject.toml"
    return file.is_file() and "[tool.ds-dagster" in file.read_text(encoding="utf-8", errors="replace")


def _may_stay(path: Path) -> bool:
    """Whether an existing file is kept instead of refused: a .gitignore or a list of requirements."""
    return path.name in (".gitignore", "requirements.txt")


def _written(source: Path, source_name: str, target: Path) -> Path | None:
    if target.exists():
        return None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((source / source_name).read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as problem:
        raise error("FOLDER_NOT_WRITABLE", file=str(target), reason=problem.strerror or str(problem)) from problem
    return target
