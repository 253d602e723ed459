"""A new project: settings, SQL to start from, a test case, and what Dagster needs to load it."""

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


def write_project(folder: Path, with_dagster: bool = True) -> list[Path]:
    """Write a small project that compiles and whose test passes.

    Args:
        folder: made when missing; other files in it are left alone.
        with_dagster: also ``definitions.py``, ``workspace.yaml`` and ``dagster.yaml``.

    Returns:
        What was written, in order.

    Raises:
        UserError: FOLDER_NOT_EMPTY when one of the files is there already (nothing is written then),
            FOLDER_NOT_WRITABLE.
    """
    chosen = {**PROJECT, **(DAGSTER if with_dagster else {})}
    for name in (*chosen, "pyproject.toml") if _is_project(folder) else chosen:
        if (folder / name).exists() and not _may_stay(folder / name):
            raise error("FOLDER_NOT_EMPTY", file=str(folder / name))
    source = Path(__file__).with_name("template_files")
    return [
        written
        for name, template in chosen.items()
        if (written := _written(source, template, folder / name)) is not None
    ]


def _is_project(folder: Path) -> bool:
    """Whether settings are in its pyproject.toml already."""
    file = folder / "pyproject.toml"
    return file.is_file() and "[tool.ds-dagster" in file.read_text(encoding="utf-8", errors="replace")


def _may_stay(path: Path) -> bool:
    """A .gitignore that is there is kept as it is."""
    return path.name == ".gitignore"


def _written(source: Path, source_name: str, target: Path) -> Path | None:
    if target.exists():
        return None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((source / source_name).read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as problem:
        raise error("FOLDER_NOT_WRITABLE", file=str(target), reason=problem.strerror or str(problem)) from problem
    return target
