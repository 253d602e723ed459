"""The table of edits: queries before and after, and what becomes of their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

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
    """``keys``: of a result that is folded. ``run``: rows are compared."""

    title: str
    before: Definition
    after: Definition
    verdict: str
    back: str
    keys: tuple[str, ...] = ()
    run: bool = True


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
                tuple(family.get("keys", ())),
                row.get("run", True),
            )


def _edited(before: Definition, row: dict) -> Definition:
    prelude, query, model = before.prelude, before.query, before.model
    for old, new in [row["replace"], *row.get("also", ())]:
        if old in query:
            query, model = query.replace(old, new), model.replace(old.rstrip(";"), new.rstrip(";"))
        else:
            prelude = prelude.replace(old, new)
    assert (prelude, query) != (before.prelude, before.query), row["name"]
    model = f"{before.model} AND {row['and']}" if "and" in row else row.get("model", model)
    return Definition(prelude, query, model)
