"""Lineage as text: a tree for people, a Mermaid diagram for documents, column arrows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ds_dagster.names import QualifiedName, safe_name
from ds_dagster.project.load import LoadedProject

Edge = tuple[QualifiedName, QualifiedName]


def edges(project: LoadedProject, chosen: QualifiedName | None) -> list[Edge]:
    """(from, to) pairs; with ``chosen`` only pairs upstream and downstream of that relation."""
    every = [(source, name) for name, sources in project.depends_on.items() for source in sources]
    if chosen is None:
        return sorted(every)
    near = _reach(every, chosen, 0, 1) | _reach(every, chosen, 1, 0) | {chosen}
    return sorted(edge for edge in every if edge[0] in near and edge[1] in near)


def _reach(among: Sequence[Edge], start: QualifiedName, tail: int, head: int) -> set[QualifiedName]:
    reached: set[QualifiedName] = set()
    todo = [start]
    while todo:
        here = todo.pop()
        new = {edge[head] for edge in among if edge[tail] == here} - reached
        reached |= new
        todo += list(new)
    return reached


def tree_lines(project: LoadedProject, chosen: QualifiedName | None) -> Iterator[str]:
    """Sources at the left, their readers indented below; a relation with several sources is expanded once."""
    chosen_edges = edges(project, chosen)
    targets = {target for _, target in chosen_edges}
    names = set(project.catalog.relations) if chosen is None else {chosen, *(n for e in chosen_edges for n in e)}
    printed: set[QualifiedName] = set()
    for root in sorted(names - targets):
        yield from _branch(project, chosen_edges, root, 0, printed)


def _branch(
    project: LoadedProject, among: Sequence[Edge], name: QualifiedName, depth: int, printed: set[QualifiedName]
) -> Iterator[str]:
    relation = project.catalog.relations.get(name)
    kind = relation.kind.replace("_", " ") if relation else "refused"
    again = name in printed
    place = f"  {relation.store}:{relation.entity}" if relation else ""
    yield "  " * depth + f"{'└ ' if depth else ''}{name.name}  ({kind}){place}{'  (above)' if again else ''}"
    if again:
        return
    printed.add(name)
    for source, target in among:
        if source == name:
            yield from _branch(project, among, target, depth + 1, printed)


def mermaid_text(project: LoadedProject, among: Sequence[Edge]) -> Iterator[str]:
    """A flowchart from left to right."""
    yield "flowchart LR"
    for name in sorted({name for edge in among for name in edge}):
        relation = project.catalog.relations.get(name)
        label = f"{name.name}<br/>{relation.kind.replace('_', ' ')} in {relation.store}" if relation else name.name
        yield f'  {safe_name(str(name))}["{label}"]'
    for source, target in among:
        yield f"  {safe_name(str(source))} --> {safe_name(str(target))}"


def column_lines(project: LoadedProject, chosen: QualifiedName | None) -> Iterator[str]:
    """``sink.column <- source.column, …`` per query."""
    for query in (part for job in project.queries.values() for part in job.parts):
        if chosen is not None and query.sink.name != chosen:
            continue
        for column, sources in query.lineage.items():
            shown = ", ".join(f"{name.name}.{source}" for name, source in sources) or "(no column)"
            yield f"{query.sink.name.name}.{column} <- {shown}"
