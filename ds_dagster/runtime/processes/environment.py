"""The values of references for an engine: its process environment and the project's ``.env``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from dotenv import dotenv_values

from ds_dagster.catalog.properties.values import read_value_file

INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "JAVA_HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV",
    "DS_CACHE", "DS_IVY_SETTINGS", "DS_LOG_LEVEL", "DS_PROFILE", "DS_JOURNAL", "DS_SQL", "DS_DATABASE", "DS_SCHEMA",
    "DS_STORE", "DS_VIEWS",
)  # fmt: skip
"""Variables that a detached engine inherits from its starter: paths of programs, language, time zone (also ``LC_*``),
and overrides of the project's settings, so that both use the same project. No variable that a reference in SQL could
name by accident."""


def engine_environment(root: Path, process: Mapping[str, str] | None = None) -> dict[str, str]:
    """Values for ``${NAME}``: the project's ``.env``, overridden by the process environment. Read again for every
    start of a job, so that a corrected ``.env`` needs no new engine.

    Raises:
        UserError: VALUE_FILE_UNREADABLE.
    """
    file = root / ".env"
    written = dotenv_values(stream=StringIO(read_value_file(str(file), "${NAME} in SQL"))) if file.is_file() else {}
    variables = {name: value for name, value in written.items() if value is not None}
    return variables | dict(os.environ if process is None else process)


def inherited(process: Mapping[str, str]) -> dict[str, str]:
    """The part of a starter's environment that a detached engine gets."""
    return {name: value for name, value in process.items() if name in INHERITED or name.startswith("LC_")}
