"""Permissions of ``apply`` to change a running query: which of them each verdict needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal, get_args

from ds_dagster.runtime.status import Action, Change, Consent, Verdict

Permission = Literal["restart", "reset", "duplicates", "loss", "prune"]
"""``restart``: stop a running query and go on with its new definition; ``reset``: start over from a new checkpoint;
``duplicates``: a reset may write rows that a stream already has; ``loss``: a reset may leave out rows that cannot be
read again; ``prune``: stop jobs without a statement."""

PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
_NEEDS: Mapping[Verdict, tuple[Action, tuple[Permission, ...]]] = MappingProxyType(
    {
        "keeps_checkpoint": ("restart", ("restart",)),
        "needs_new_checkpoint": ("reset", ("reset",)),
        "would_lose_data": ("reset", ("reset", "loss")),
    }
)
"""Verdict → what applies it, and the permissions for that; other verdicts need none."""


def needed(change: Change) -> tuple[Permission, ...]:
    """The permissions without which ``apply`` refuses a change of a running query."""
    _, permissions = _NEEDS.get(change.verdict, ("ensure", ()))
    return (*permissions, "duplicates") if change.doubles else permissions


def action_for(change: Change, permitted: Collection[Permission]) -> tuple[Action, tuple[Consent, ...]]:
    """How ``apply`` asks for a query: ``ensure``, which refuses to change one that runs, unless all that the change
    needs is permitted."""
    if not needed(change) or not set(needed(change)) <= set(permitted):
        return "ensure", ()
    action, _ = _NEEDS[change.verdict]
    return action, ("duplicates",) if change.doubles else ()
