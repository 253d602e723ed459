"""Lineage as text: a tree for people, a Mermaid diagram for documents, column arrows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ds_dagster.names import QualifiedName, safe_name
from ds_dagster.project.load import LoadedProject

Edge = tuple[QualifiedName, QualifiedName]


def edges(project: LoadedProject, chosen: QualifiedName | None) -> list[Edge]:
    """(from, to) pairs; with a relation only those above and below it."""
    found = [(source, name) for name, sources in project.depends_on.items() for source in sources]
    if chosen is None:
        return sorted(found)
    near = _reach(found, chosen, 0, 1) | _reach(found, chosen, 1, 0) | {chosen}
    return sorted(edge for edge in found if edge[0] in near and edge[1] in near)


def _reach(found: Sequence[Edge], start: QualifiedName, tail: int, head: int) -> set[QualifiedName]:
    seen: set[QualifiedName] = set()
    todo = [start]
    while todo:
        here = todo.pop()
        new = {edge[head] for edge in found if edge[tail] == here} - seen
        seen |= new
        todo += list(new)
    return seen


def tree_lines(project: LoadedProject, chosen: QualifiedName | None) -> Iterator[str]:
    """Sources at the left, what reads them indented below; a relation with several sources is shown once in full."""
    found = edges(project, chosen)
    targets = {target for _, target in found}
    names = set(project.catalog.relations) if chosen is None else {chosen, *(n for e in found for n in e)}
    seen: set[QualifiedName] = set()
    for root in sorted(names - targets):
        yield from _branch(project, found, root, 0, seen)


def _branch(
    project: LoadedProject, found: Sequence[Edge], name: QualifiedName, depth: int, seen: set[QualifiedName]
) -> Iterator[str]:
    relation = project.catalog.relations.get(name)
    kind = relation.kind.replace("_", " ") if relation else "refused"
    again = name in seen
    place = f"  {relation.store}:{relation.entity}" if relation else ""
    yield "  " * depth + f"{'└ ' if depth else ''}{name.name}  ({kind}){place}{'  (above)' if again else ''}"
    if again:
        return
    seen.add(name)
    for source, target in found:
        if source == name:
            yield from _branch(project, found, target, depth + 1, seen)


def mermaid_text(project: LoadedProject, found: Sequence[Edge]) -> Iterator[str]:
    """A flowchart from left to right."""
    yield "flowchart LR"
    for name in sorted({name for edge in found for name in edge}):
        relation = project.catalog.relations.get(name)
        label = f"{name.name}<br/>{relation.kind.replace('_', ' ')} in {relation.store}" if relation else name.name
        yield f'  {safe_name(str(name))}["{label}"]'
    for source, target in found:
        yield f"  {safe_name(str(source))} --> {safe_name(str(target))}"


def column_lines(project: LoadedProject, chosen: QualifiedName | None) -> Iterator[str]:
    """``sink.column <- source.column, …`` per query."""
    for query in (part for job in project.queries.values() for part in job.parts):
        if chosen is not None and query.sink.name != chosen:
            continue
        for column, sources in query.lineage.items():
            shown = ", ".join(f"{name.name}.{source}" for name, source in sources) or "(constant)"
            yield f"{query.sink.name.name}.{column} <- {shown}"
