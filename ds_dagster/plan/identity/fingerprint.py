"""Stable hashes of a plan: its meaning (fingerprint) and what a checkpoint depends on (state signature).

Both are made of positions and types, never of names that only the SQL text has: aliases, formatting, comments, the
order of properties and connection properties of stores change nothing. A change of the algorithm is a new version
prefix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ds_dagster.plan.nodes.relation_shapes import Shape, StoreKinds
from ds_dagster.plan.nodes.rows import Filter, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.shaping import Shaper, ShapeScope

FINGERPRINT_VERSION = "v1"
STATE_VERSION = "s3"
"""Changes with the algorithm, and when all operators of this package change the layout of their state."""
EARLIER_STATE_VERSIONS = ("s1", "s2")
"""Algorithms whose signatures journals still hold: s1 counted the handling of bad records; s1 and s2 counted only the
types of kept rows, and no filters above the state."""


def fingerprint(root: Sink, *, refresh: str, settings: Mapping[str, object], store_kinds: StoreKinds) -> str:
    """Hash of everything that decides which rows the query writes, and where.

    Args:
        root: plan after rewriting.
        refresh: continuous, incremental or full.
        settings: QUERY WITH without the query's name.
        store_kinds: folded store name → kind.
    """
    scope = ShapeScope(store_kinds)
    relation, columns = root.shape(Shaper(root.inputs, scope))
    meaning = [relation, columns, root.input.whole_shape(scope)]
    return _hash(FINGERPRINT_VERSION, [refresh, sorted(settings.items()), meaning])


def state_signature(root: Sink, *, store_kinds: StoreKinds, version: str = STATE_VERSION, state_store: str = "") -> str:
    """Hash of the content of a checkpoint: sources with their starting positions; stateful steps with everything below,
    without the handling of rows that are left out; filters above them that decide about the state.

    Args:
        root: plan after rewriting.
        store_kinds: folded store name → kind.
        version: of the algorithm, today's or one of :data:`EARLIER_STATE_VERSIONS`.
        state_store: the chosen store of state that cannot move, see :func:`ds_dagster.plan.state_store.pinned_store`;
            empty otherwise, so that the signatures of other queries stay as they are.
    """
    is_earlier = version in EARLIER_STATE_VERSIONS
    scope = ShapeScope(store_kinds, pace=False, bad_records=version == "s1", rows_by_type=is_earlier)
    parts = state_parts(root, scope)
    filters = [] if is_earlier else parts.filters
    pinned = [["state.store", state_store]] if state_store else []
    return _hash(version, [[*parts.positions, *parts.steps, *filters], parts.result, *pinned])


@dataclass(frozen=True, slots=True)
class StateParts:
    """Shapes of the content of a checkpoint.

    Attributes:
        positions: name, entity, start and slot of each source.
        steps: the stateful steps.
        filters: filters that decide about the state.
        result: changelog kind and key of the result.
    """

    positions: Shape
    steps: Shape
    filters: Shape
    result: Shape


def state_parts(root: Sink, scope: ShapeScope) -> StateParts:
    """The shapes that a state signature is made of."""
    filters = [node for node in root.walk() if isinstance(node, Filter) and node.decides_about_state]
    return StateParts(
        positions=[node.position_shape(scope) for node in root.walk() if isinstance(node, Scan)],
        steps=[node.state_shape(scope) for node in root.walk() if node.is_stateful],
        filters=[["Filter", node.shape(Shaper(node.inputs, scope))] for node in filters],
        result=[root.changelog, list(root.key)],
    )


def earlier_signatures(root: Sink, *, store_kinds: StoreKinds, state_store: str = "") -> tuple[str, ...]:
    """Signatures of the state by earlier algorithms, in the order of :data:`EARLIER_STATE_VERSIONS`."""
    return tuple(
        state_signature(root, store_kinds=store_kinds, version=earlier, state_store=state_store)
        for earlier in EARLIER_STATE_VERSIONS
    )


def combined(parts: Sequence[tuple[str, str]]) -> str:
    """Hash of an application: the names of its queries with their fingerprints, or with their state signatures, in
    order. Its version prefix is that of the first one."""
    version = parts[0][1].partition(":")[0]
    return _hash(version, [list(part) for part in parts])


def _hash(version: str, shape: Shape) -> str:
    text = json.dumps(shape, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"{version}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
