"""What the wheel carries besides Python files: the Java operators (sources and jar) and the example project.

The jar is built against the PySpark of the machine that builds the wheel. Where there is no Java, no PySpark or no
network the wheel carries the sources alone and the jar is built at first use; DS_BUILD_JAR=require makes that a
failure (for releases).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EXAMPLE = ("sql", "definitions.py", "workspace.yaml", "dagster.yaml")


class OperatorsBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the jar, its sources and the example project to a standard wheel; an editable one uses the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before the files are collected."""
        if version == "editable":
            return
        root = Path(self.root)
        include: dict[str, str] = build_data["force_include"]
        for part in ("src", "resources"):
            if (root / "jvm" / part).is_dir():
                include[str(root / "jvm" / part)] = f"ds_dagster/_jvm/{part}"
        for name in EXAMPLE:
            if (root / name).exists():
                include[str(root / name)] = f"ds_dagster/_example/{name}"
        jar = self._jar(root)
        if jar is not None:
            include[str(jar)] = f"ds_dagster/_jvm/{jar.name}"

    def _jar(self, root: Path) -> Path | None:
        sys.path.insert(0, str(root))
        try:
            from ds_dagster.errors import DsError
            from ds_dagster.jars import operator_jar

            return operator_jar(self.app.display_info)
        except DsError as problem:
            if os.environ.get("DS_BUILD_JAR") == "require":
                raise
            self.app.display_warning(f"the wheel carries the Java sources without a jar: {problem}")
            return None
        finally:
            sys.path.remove(str(root))
