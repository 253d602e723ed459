"""The job spec: what the journal keeps of a query so that an engine can run it without the checkout. Versioned JSON, no secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ds_dagster.project import SliceStatement

SPEC_VERSION = 1


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One query as a job.

    Attributes:
        name: query name; the job id is environment + journal uuid + name.
        relation: qualified name of the relation it fills, as text.
        slice: statements to compile alone.
        fingerprint, state_signature: of the definition that was asked for.
        package_version: that made it.
        refresh: continuous, incremental or full.
        stores: folded names of the stores it touches.
    """

    name: str
    relation: str
    slice: tuple[SliceStatement, ...]
    fingerprint: str
    state_signature: str
    package_version: str
    refresh: str = "continuous"
    stores: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Stable text for the journal."""
        return json.dumps({"version": SPEC_VERSION, **asdict(self)}, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> JobSpec:
        """The inverse of :meth:`to_json`; older versions are read for ever."""
        values: dict[str, Any] = dict(json.loads(text))
        values.pop("version")
        statements = tuple(SliceStatement(**statement) for statement in values.pop("slice"))
        return cls(slice=statements, stores=tuple(values.pop("stores")), **values)


def shown(spec: JobSpec) -> Mapping[str, object]:
    """What ``ds explain --level stages`` prints of it."""
    return {"name": spec.name, "relation": spec.relation, "fingerprint": spec.fingerprint, "stores": list(spec.stores)}
