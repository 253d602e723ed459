"""The 23 queries: their texts, what the compiler says of them, and their batch answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.nexmark.dataset import Dataset
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings

HERE = Path(__file__).parent
RELATIONS = HERE / "sql" / "relations.sql"
NAMES = tuple(f"q{number}" for number in range(23))


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query as the compiler takes it.

    Attributes:
        name: ``q0`` to ``q22``, also that of its relation.
        project: the relations and this query.
        refused: the condition it is refused with, empty when it is not.
        reason: the same for people.
    """

    name: str
    project: LoadedProject
    refused: str = ""
    reason: str = ""


def compiled(name: str, folder: Path) -> Compiled:
    """Compile one query over the relations.

    Args:
        name: of :data:`NAMES`.
        folder: stands for the project's root.
    """
    settings = Settings(root=folder, sql=folder, state=folder / ".ds", store="nexmark")
    files = (RELATIONS, HERE / "sql" / f"{name}.sql")
    project = compile_texts([(path.name, path.read_text(encoding="utf-8")) for path in files], settings)
    problem = next(iter(project.errors), None)
    if problem is None:
        return Compiled(name, project)
    return Compiled(name, project, problem.condition, problem.text())


def batch_answer(name: str, dataset: Dataset) -> list[Mapping[str, Any]]:
    """What DuckDB says of the same events, all at once."""
    with duckdb.connect() as database:
        for topic, table in dataset.tables.items():
            database.register(topic, table)
        found = database.execute((HERE / "batch" / f"{name}.sql").read_text(encoding="utf-8"))
        columns = [column[0] for column in found.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
