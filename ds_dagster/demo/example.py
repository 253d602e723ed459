"""Finds the example project: in a checkout around the package, or the copy in the wheel."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import ds_dagster
from ds_dagster.errors import DsError, error
from ds_dagster.settings import find_project, load_settings

FILES = ("definitions.py", "workspace.yaml", "dagster.yaml")
MARKS = ("clickstream.sql", "multi_store.sql", "warehouse.sql")
"""Files of statements by which a project is recognised as the example."""
SETTINGS: Mapping[str, str] = MappingProxyType(
    {"database": "clickstream_db", "schema": "public", "store": "prod_kafka"}
)


def is_example(root: Path) -> bool:
    """Whether a folder is the example project."""
    return all((load_settings(root).sql / name).is_file() for name in MARKS)


def example_source() -> Path:
    """The folder the example is copied from.

    Raises:
        InternalError: DEMO_EXAMPLE_MISSING.
    """
    package = Path(ds_dagster.__file__).parent
    for folder in (package / "_example", package.parent):
        if all((folder / "sql" / name).is_file() for name in MARKS):
            return folder
    raise error("DEMO_EXAMPLE_MISSING")


def find_example(start: Path) -> Path | None:
    """The project that a folder is in, if it is the example; else None."""
    try:
        root = find_project(start)
    except DsError:
        return None
    return root if is_example(root) else None


def copy_example(source: Path, target: Path) -> Path:
    """Write the example into a folder; files that are there already are kept.

    Args:
        source: a folder with ``sql/`` and the files of Dagster.
        target: made when missing.

    Raises:
        UserError: FOLDER_NOT_WRITABLE.
    """
    try:
        (target / "sql").mkdir(parents=True, exist_ok=True)
        for path in [*sorted((source / "sql").iterdir()), *(source / name for name in FILES)]:
            to = target / path.relative_to(source)
            if path.is_file() and not to.exists():
                shutil.copyfile(path, to)
        settings = target / "ds.toml"
        if not settings.exists():
            settings.write_text("".join(f'{key} = "{value}"\n' for key, value in SETTINGS.items()), encoding="utf-8")
    except OSError as problem:
        raise error("FOLDER_NOT_WRITABLE", file=str(target), reason=problem.strerror or str(problem)) from problem
    return target
