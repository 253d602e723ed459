"""The table of edits: queries before and after, and what becomes of their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.settings import Settings

SAME = "before"
"""Model of an edit that changes no row of this test."""
TABLE = Path(__file__).parents[2] / "fixtures" / "edits.yaml"


@dataclass(frozen=True)
class Definition:
    """One side of an edit: declarations, the query that is compiled, and the batch query that is its model."""

    prelude: str
    query: str
    model: str

    @property
    def sql(self) -> str:
        return self.prelude + self.query


@dataclass(frozen=True)
class Edit:
    """``keys``: of a result that is folded. ``partial``: column → result that counts since the edit if the state is
    kept all the same; ``back_partial``: of the reverse edit."""

    title: str
    before: Definition
    after: Definition
    verdict: str
    back: str
    keys: tuple[str, ...] = ()
    partial: Mapping[str, str] = field(default_factory=dict)
    back_partial: Mapping[str, str] = field(default_factory=dict)


def edits() -> Iterator[Edit]:
    """All rows of the table."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    for family in table["families"]:
        base = family["base"]
        model = family.get("model", base.partition(" AS ")[2].rstrip(";"))
        before = Definition(f"\n{table['sources']}", base, model)
        for row in family["edits"]:
            yield Edit(
                f"{family['title']}: {row['name']}",
                before,
                _edited(before, row),
                row["verdict"],
                row.get("back", row["verdict"]),
                tuple(row.get("keys", family.get("keys", ()))),
                row.get("partial", {}),
                row.get("back_partial", {}),
            )


def compiled(sql: str, folder: Path) -> LoadedProject:
    """The project of some statements over a store in memory; they have no mistakes."""
    settings = Settings(root=folder, sql=folder / "sql", state=folder / ".ds", store="m")
    project = compile_texts([("edit.sql", f"CREATE STORE m WITH ('type' = MEMORY);\n{sql}")], settings)
    assert not project.errors, [problem.text() for problem in project.errors]
    return project


def job_row(spec: JobSpec) -> JobRow:
    """The row of a job that runs with this spec."""
    return JobRow(spec.name, spec.relation, "RUNNING", 1, "ensure", "", 0.0, spec.to_json(), spec.fingerprint, 1)


def _edited(before: Definition, row: dict) -> Definition:
    prelude, query, model = before.prelude, before.query, before.model
    for old, new in [row["replace"], *row.get("also", ())]:
        if old in query:
            query, model = query.replace(old, new), model.replace(old.rstrip(";"), new.rstrip(";"))
        else:
            prelude = prelude.replace(old, new)
    assert (prelude, query) != (before.prelude, before.query), row["name"]
    model = f"{before.model} AND {row['and']}" if "and" in row else row.get("model", model)
    model = before.model if row["verdict"] == "unchanged" or model == SAME else model
    return Definition(prelude, query, model)
