"""Names of sources in a checkpoint: a renamed relation keeps its source name, so that its readers continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery

Places = Mapping[tuple[str, str], Sequence[Scan]]


def kept_names(old: BoundQuery, new: BoundQuery) -> Mapping[str, str]:
    """Qualified relation of the new definition → source name in the old definition's checkpoint, for relations of the
    same entity with another name. Empty if two sources would have one name.
    """
    before, after = _by_place(old), _by_place(new)
    names: dict[str, str] = {}
    for place, scans in after.items():
        former = before.get(place, scans)
        for scan, source in zip(scans, former if len(former) == len(scans) else scans, strict=True):
            names.setdefault(str(scan.relation.name), source.source_name)
    own = {str(scan.relation.name): scan.source_name for scan in reversed(new.scans)}
    is_one_each = len(set(names.values())) == len(names)
    return {relation: name for relation, name in names.items() if name != own[relation]} if is_one_each else {}


def _by_place(query: BoundQuery) -> Places:
    places: dict[tuple[str, str], list[Scan]] = {}
    for scan in query.scans:
        places.setdefault((scan.relation.store, scan.relation.entity), []).append(scan)
    return places
