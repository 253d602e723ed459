"""Two relations that would write one entity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error


def shared_entities(relations: Iterable[Relation]) -> Sequence[Diagnostic]:
    """ENTITY_SHARED for every two relations of CREATE … AS that would write the same entity."""
    findings = Findings()
    writers: dict[tuple[str, str], Relation] = {}
    for relation in relations:
        if relation.declared:
            continue
        first = writers.setdefault((relation.store, relation.entity), relation)
        if first is not relation:
            problem = error(
                "ENTITY_SHARED",
                span=relation.span,
                relation=str(relation.name),
                other=str(first.name),
                entity=relation.entity,
                store=relation.store,
            )
            findings.add(problem, first.span)
    return findings.diagnostics
