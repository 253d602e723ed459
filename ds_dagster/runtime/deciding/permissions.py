"""Permissions of ``apply`` to change a running query: which of them each verdict needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, get_args

from ds_dagster.runtime.status import Action, Change, Consent, Verdict

Permission = Literal["restart", "new-version", "differences", "partial", "reset", "duplicates", "loss", "prune"]
"""``restart``: stop a running query and go on with its new definition; ``partial``: in groups that exist, results that
this definition adds count only the rows since the change; ``new-version``: build it beside the running one
and hand over; ``differences``: that version may take over even where ``ds promote`` needs ``--yes``; ``reset``: start
over from a new checkpoint; ``duplicates``: a reset may write rows that a stream already has; ``loss``: rows may be left
out that cannot be read again; ``prune``: stop jobs without a statement."""

Way = Action | Literal["new-version"]

PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
_NEEDS: Mapping[Verdict, tuple[Action, tuple[Permission, ...]]] = MappingProxyType(
    {
        "keeps_checkpoint": ("restart", ("restart",)),
        "renamed": ("restart", ("restart",)),
        "needs_new_checkpoint": ("reset", ("reset",)),
        "would_lose_data": ("reset", ("reset", "loss")),
    }
)
"""Verdict → what applies it, and the permissions for that; other verdicts need none."""


def needed(change: Change) -> tuple[Permission, ...]:
    """The permissions without which ``apply`` refuses a change of a running query; for whole results."""
    return next((permissions for _, permissions in _ways(change) if "partial" not in permissions), ())


def action_for(change: Change, permitted: Collection[Permission]) -> tuple[Way, tuple[Consent, ...]]:
    """How ``apply`` requests a query: by the first way whose permissions are all granted (a new version, a restart with
    partial results, a reset); else by ``ensure``, which refuses to change a running query."""
    for way, permissions in _ways(change):
        if set(permissions) <= set(permitted):
            if "partial" in permissions:
                return way, ("partial",)
            return way, ("duplicates",) if change.doubles else ()
    return "ensure", ()


def partial_text(change: Change) -> str:
    """The way that keeps the state although results are added, for people."""
    results = ", ".join(change.partial)
    way = f"`ds restart {change.name} --allow partial` keeps the state"
    return f"{way}; in groups that exist, {results} is then computed from the rows since the change"


def _ways(change: Change) -> Iterator[tuple[Way, tuple[Permission, ...]]]:
    """Ways to apply a change, the best first, with their permissions."""
    if change.verdict not in _NEEDS:
        return
    action, permissions = _NEEDS[change.verdict]
    if change.beside:
        yield "new-version", tuple("new-version" if name == "reset" else name for name in permissions)
    if change.partial:
        yield "restart", ("restart", "partial")
    yield action, (*permissions, "duplicates") if change.doubles else permissions
