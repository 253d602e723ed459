"""Keys whose rows a step below has put together already, so that Spark need not exchange and sort them again.

A step with keys makes all rows of one of its keys in one task, which has the partition of that key; a step without
timers makes them one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ds_dagster.datatypes import DataType, common_type, is_primitive
from ds_dagster.plan.nodes.delta import DeltaJoin, Fold
from ds_dagster.plan.nodes.join import TemporalJoin
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.reading import plain_name

KeyPlace = Literal["ANYWHERE", "ONE_TASK", "ADJACENT", "IN_PARTITION"]
"""Where the rows of a key are before they are exchanged, see ``dsdagster.KeyPlace``."""


def place_of_changes(node: Fold) -> KeyPlace:
    """Of the key of a changelog: its rows are from one key of the step below if it has the fields of that key."""
    step, fields = _made_by(node.input, node.key)
    key = [next((name for name in names if name in fields), "") for names, _ in _key(step)]
    if not key or not all(key):
        return "ANYWHERE"
    is_adjacent = set(key) == set(fields) and not isinstance(step, TemporalJoin)
    return "ADJACENT" if is_adjacent else "ONE_TASK"


def place_of_partitions(node: TopN) -> KeyPlace:
    """Of the partitions of ranks, which have a state: it is where the step below has put their rows if both have the
    same values as their key, in the same order and of the same types."""
    step, fields = _made_by(node.input, [plain_name(expression) for expression in node.partition])
    key = _key(step)
    if not key or len(key) != len(fields):
        return "ANYWHERE"
    parts = zip(fields, node.partition, key, strict=True)
    is_same = all(name in names and part.type == type_ and is_primitive(type_) for name, part, (names, type_) in parts)
    return "IN_PARTITION" if is_same else "ANYWHERE"


def _made_by(node: Node, names: Sequence[str]) -> tuple[Node, list[str]]:
    """The step that makes fields, through steps that pass them on, and their names in it; no names if there are several
    steps, or none."""
    origins = [node.origin(name) for name in names if name]
    steps = [step for step, _ in origins]
    is_one = len(origins) == len(names) and all(step is steps[0] for step in steps)
    return (steps[0], [name for _, name in origins]) if is_one and steps else (node, [])


def _key(step: Node) -> list[tuple[frozenset[str], DataType]]:
    """For each part of a step's key its type, and the fields with its value in all rows that the step makes; empty if a
    step has no key, or does not tell it."""
    if isinstance(step, TopN):
        return [(frozenset({plain_name(part)}) - {""}, part.type) for part in step.partition]
    tells = isinstance(step, TemporalJoin) or (isinstance(step, DeltaJoin) and step.residual is None)
    if not isinstance(step, TemporalJoin | DeltaJoin) or not tells or step.kind == "full":
        return []
    parts = []
    for left, right in zip(step.left_keys, step.right_keys, strict=True):
        sides = (left, right) if step.kind == "inner" else (left,)  # the right one is NULL where there is no partner
        names = frozenset(plain_name(side) for side in sides) - {""}
        parts.append((names, common_type(left.type, right.type) or left.type))
    return parts
