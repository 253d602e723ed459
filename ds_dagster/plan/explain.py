"""EXPLAIN without Spark: the statement, and the bound plan as text and as data.

::

    stream user_clicks → prod_kafka.user_clicks                     fingerprint v1:…
    └─ 1 Project → uid VARCHAR, click_url VARCHAR
       └─ 2 TemporalJoin inner on c.userid = u.userid · versions kept 1 h
          ├─ 3 Scan clicks AS c ← prod_kafka.clicks · append · time: record
          └─ 4 Scan users AS u ← prod_kinesis.users · upsert by userid · time: record
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.shaping import ShapeScope
from ds_dagster.plan.query import Part
from ds_dagster.sql.printing import print_statement

Described = Mapping[str, object]
WIDTH, HANGING = 120, 6
"""Characters of a line of a plan, and the indentation of the rest of a longer line."""


def explain_statement(part: Part) -> str:
    """The parsed statement in canonical form."""
    return print_statement(part.statement)


def explain_plan(part: Part) -> str:
    """The bound plan as a tree, for people."""
    head = part.root.about()
    if part.is_finite:
        head += f" · {part.refresh}"
    lines = [head, *_tree(part.root.input, count(1), _again(part.root.input), "", last=True)]
    lines += ["columns", *(f"  {line}" for line in _columns(part))]
    lines += [f"fingerprint {part.fingerprint}", f"state {part.state_signature}"]
    return "\n".join(lines)


def plan_json(part: Part) -> Described:
    """The bound plan as data: nodes with ids in the order of :func:`explain_plan`, inputs by id."""
    sink = part.sink
    return {
        "query": part.name,
        "relation": str(sink.name),
        "kind": sink.kind,
        "store": sink.store,
        "entity": sink.entity,
        "changelog": part.root.changelog,
        "key": list(part.root.key),
        "refresh": part.refresh,
        "settings": dict(part.settings),
        "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in sink.columns],
        "nodes": _nodes(part.root.input),
        "lineage": {name: [[str(r), c] for r, c in sources] for name, sources in part.lineage.items()},
        "fingerprint": part.fingerprint,
        "state_signature": part.state_signature,
    }


def _nodes(top: Node) -> list[Described]:
    nodes: list[Described] = []
    numbers, again = count(1), _again(top)

    def visit(node: Node) -> int:
        number = next(numbers)
        place = len(nodes)
        nodes.append({})
        nodes[place] = {
            "id": number,
            "node": type(node).__name__,
            "about": node.about(),
            "changelog": node.changelog,
            "key": [shown(name) for name in node.key],
            "stateful": node.is_stateful,
            "same_as": again.get(number),
            "inputs": [visit(child) for child in node.inputs],
            "output": [{"name": shown(f.name), "type": str(f.type), "nullable": f.nullable} for f in node.output],
        }
        return number

    visit(top)
    return nodes


def _again(top: Node) -> Mapping[int, int]:
    """Number of a stateful step → number of the first step that gives equal rows; Spark runs both."""
    first: dict[str, int] = {}
    repeated = {}
    for number, node in enumerate(top.walk(), start=1):
        if node.is_stateful and (same := first.setdefault(repr(node.whole_shape(ShapeScope())), number)) != number:
            repeated[number] = same
    return repeated


def _tree(node: Node, numbers: Iterator[int], again: Mapping[int, int], indent: str, *, last: bool) -> list[str]:
    branch, number = "└─ " if last else "├─ ", next(numbers)
    same = f" · same as {again[number]}, kept once more" if number in again else ""
    below = indent + ("   " if last else "│  ")
    text = f"{indent}{branch}{number} {type(node).__name__} {node.about()}".rstrip() + same
    lines = _folded(text, below + ("│" if node.inputs else " ").ljust(HANGING))
    for position, child in enumerate(node.inputs, start=1):
        lines += _tree(child, numbers, again, below, last=position == len(node.inputs))
    return lines


def _folded(text: str, hanging: str) -> list[str]:
    """A line, cut after commas if it is too long; ``hanging`` begins the lines after the first."""
    first, *others = text.split(", ")
    lines = [first]
    for part in others:
        is_full = len(lines[-1]) + len(part) + 3 > WIDTH
        lines[-1] += "," if is_full else f", {part}"
        lines += [hanging + part] if is_full else []
    return lines


def _columns(part: Part) -> Iterator[str]:
    """Each sink column with its type and what it is computed from."""
    for column in part.sink.columns:
        sources = ", ".join(f"{relation.name}.{name}" for relation, name in part.lineage.get(column.name, ()))
        null = "" if column.nullable else " NOT NULL"
        yield f"{column.name} {column.type}{null}" + (f" ← {sources}" if sources else "")
