"""What the wheel carries besides Python files: the Java operators (sources and jar), the example project, and metadata
that depend on where the project is published.

The jar is compiled against the PySpark of the machine that builds the wheel; where there is none, as in an environment
of the build alone, against the few jars of Spark that are locked for it, fetched by Maven. Where there is no Java or no
network the wheel carries the sources alone and the jar is built at first use; DS_BUILD_JAR=require makes that a
failure (for releases).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

EXAMPLE = ("sql", "definitions.py", "workspace.yaml", "dagster.yaml")


LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A link or picture whose target is a file of the repository."""


def for_an_index(text: str, repository: str) -> str:
    """The README as a package index shows it: links lead to the repository; without one they are plain text."""

    def followed(link: re.Match[str]) -> str:
        picture, label, path = link.groups()
        if not repository:
            return "" if picture else label
        return f"{picture}[{label}]({repository}/{'raw' if picture else 'blob'}/main/{path})"

    return LINK.sub(followed, text)


class PublishedMetadata(MetadataHookInterface):
    """Project URLs and README, from ``repository`` and ``documentation`` in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling when it needs the metadata."""
        repository = str(self.config.get("repository", "")).rstrip("/")
        documentation = str(self.config.get("documentation", ""))
        urls = {"Repository": repository, "Documentation": documentation}
        if repository:
            urls |= {"Issues": f"{repository}/issues", "Changelog": f"{repository}/blob/main/CHANGELOG.md"}
        metadata["urls"] = {label: url for label, url in urls.items() if url}
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text, repository)}


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
