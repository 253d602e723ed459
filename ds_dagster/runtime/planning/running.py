"""The jobs that a project is compared with: of the journal, or of a state file if the journal cannot be reached."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ds_dagster.errors import error
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.runtime.status import JobStatus

FORMAT = 1
_OF_JOB = ("relation", "desired", "fingerprint", "checkpoint_version")
_OF_VERSION: Mapping[str, Any] = MappingProxyType({"query": "", "version": 1, "role": "serving", "identity": ""})
"""Fields of a version → default if a state file does not have them."""
_OF_STATUS = ("state", "condition", "batch", "rows_per_second")


@dataclass(frozen=True, slots=True)
class Running:
    """Desired and observed state of every job.

    Attributes:
        jobs: by name.
        statuses: of the same jobs.
        taken: time of the observation, epoch seconds.
    """

    jobs: Mapping[str, JobRow]
    statuses: Sequence[JobStatus]
    taken: float
    _by_name: Mapping[str, JobStatus] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {status.name: status for status in self.statuses})

    def status(self, name: str) -> JobStatus | None:
        """The status of one job; None if there is no such job."""
        return self._by_name.get(name)

    def to_json(self) -> str:
        """The text of a state file: definition and state of each job, without secrets (see ``plan/identity/slices``).

        ``{"version": 1, "taken": seconds, "jobs": [{"name", "relation", "desired", "fingerprint",
        "checkpoint_version", "query", "version", "role", "identity", "state", "condition", "batch", "rows_per_second",
        "spec"}]}``
        """
        jobs = [
            {
                "name": status.name,
                **{field: getattr(self.jobs[status.name], field) for field in _OF_JOB},
                **{field: getattr(status, field) for field in (*_OF_VERSION, *_OF_STATUS)},
                "spec": json.loads(self.jobs[status.name].spec),
            }
            for status in self.statuses
        ]
        text = json.dumps({"version": FORMAT, "taken": self.taken, "jobs": jobs}, indent=1, ensure_ascii=False)
        return text + "\n"

    @classmethod
    def from_file(cls, path: Path) -> Running:
        """Read a state file that :meth:`to_json` wrote.

        Raises:
            UserError: STATE_FILE_INVALID.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content["version"]
            entries = [(_job(entry), _status(entry)) for entry in content["jobs"]] if version == FORMAT else []
            taken = float(content["taken"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            reason = f"{type(problem).__name__}: {problem}"
            raise error("STATE_FILE_INVALID", path=str(path), reason=reason) from problem
        if version != FORMAT:
            raise error("STATE_FILE_INVALID", path=str(path), reason=f"its version is {version}, not {FORMAT}")
        return cls({job.name: job for job, _ in entries}, tuple(status for _, status in entries), taken)


def _job(entry: Mapping[str, Any]) -> JobRow:
    """The job of an entry. Requester, time and generation are not in state files, the compute pool is in the spec."""
    values = {field: entry[field] for field in _OF_JOB} | _of_version(entry)
    spec = json.dumps(entry["spec"])
    return JobRow(
        entry["name"],
        spec=spec,
        generation=0,
        action="ensure",
        requested_by="",
        requested_at=0.0,
        pool=JobSpec.from_json(spec).pool,
        **values,
    )


def _status(entry: Mapping[str, Any]) -> JobStatus:
    values = {field: entry[field] for field in ("relation", "desired", "checkpoint_version", *_OF_STATUS)}
    return JobStatus(entry["name"], job_id="", **values, **_of_version(entry))


def _of_version(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {field: entry.get(field, default) for field, default in _OF_VERSION.items()}
