"""Rows of the journal as frozen records; field names are column names. ``message`` and ``hint`` are made from a row's
``parameters`` when it is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeVar

from sqlalchemy import Row

from ds_dagster.figures import Figures, from_json, to_json
from ds_dagster.runtime.journals.told import TEXTS, read_texts
from ds_dagster.runtime.status import Action, DesiredState, EngineState, JobState, Role, version_name

RequestState = Literal["WAITING", "RUNNING", "STEP", "FINISHED", "FAILED", "STOPPED"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobRow:
    """Desired state of one job; see ``schema.JOBS``.

    A job is one version of a query. The serving version has the query's name, other versions ``query@version``.

    Attributes:
        query: name of the query; empty: the job's name.
        version: number of the version, from 1. It names its checkpoint and its ledger for life.
        role: see ``status.Role``.
        latest: for the serving version: the highest number that any version of the query ever had.
        identity: name of its checkpoint, ledger and transactions, if it differs from the default (see
            :func:`lasting_name`): the query was renamed, or an earlier job used that name.
        becomes: spec of the renamed query that continues this job once it has stopped; empty: no renaming. With the
            action ``rename`` nothing has changed yet. With other actions its tables may have their new names: it gets
            the new name in any case, and stays stopped if the action is ``stop``.
        pool: compute pool of its definition, see :mod:`ds_dagster.runtime.deciding.placing`.
    """

    name: str
    relation: str
    desired: DesiredState
    generation: int
    action: Action | Literal["skip", "stage", "promote", "rollback", "abandon", "rename", "renaming"]
    requested_by: str
    requested_at: float
    spec: str
    fingerprint: str
    checkpoint_version: int
    skips: str = ""
    begins: str = ""
    query: str = ""
    version: int = 1
    role: Role = "serving"
    latest: int = 1
    identity: str = ""
    becomes: str = ""
    pool: str = ""

    @property
    def of(self) -> str:
        """Name of its query."""
        return self.query or self.name

    @property
    def is_renamed(self) -> bool:
        """Whether its tables may already have the names of the renamed query."""
        return bool(self.becomes) and self.action != "rename"

    @property
    def writes_as(self) -> str:
        """Name that checkpoint, ledger and transactions of this version have for life."""
        return lasting_name(self.name, self.query, self.version, self.identity)


def lasting_name(name: str, query: str, version: int, identity: str) -> str:
    """See :attr:`JobRow.writes_as`; the arguments are its fields."""
    of = query or name
    return identity or (version_name(of, version) if version > 1 else of)


@dataclass(frozen=True, slots=True)
class StatusRow(Figures):
    """Observed state of one job; see ``schema.STATUS`` and :class:`ds_dagster.runtime.status.JobStatus`. Its figures
    are one column."""

    name: str
    state: JobState = "ABSENT"
    since: float = 0.0
    condition: str = ""
    message: str = ""
    hint: str = ""
    detail: str = ""
    incarnation: str = ""
    generation: int = 0
    checkpoint_version: int = 0
    fingerprint: str = ""
    beat: float | None = None
    next_retry: float | None = None
    attempts: int = 0
    started: float | None = None
    writer: str = ""
    streak: str = ""
    parameters: str = ""
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """One entry of a job's history; see ``schema.TRANSITIONS``."""

    name: str
    at: float
    kind: Literal["state", "desired", "shape"]
    source: str
    target: str
    reason: str = ""
    condition: str = ""
    message: str = ""
    incarnation: str = ""
    generation: int = 0
    seconds: float = 0.0
    actor: str = ""
    parameters: str = ""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One finite run; see ``schema.REQUESTS``. ``upstream`` is a JSON list of job names."""

    id: int
    name: str
    state: RequestState
    requested_by: str
    requested_at: float
    upstream: str
    waiting_since: float
    deadline: float
    started: float | None = None
    finished: float | None = None
    rows: int = 0
    batches: int = 0
    condition: str = ""
    message: str = ""
    hint: str = ""
    parameters: str = ""


@dataclass(frozen=True, slots=True)
class EngineRow:
    """The lease of one engine; see ``schema.ENGINES``."""

    name: str
    token: str
    state: EngineState
    pid: int
    process_started: str
    host: str
    version: str
    started: float
    beat: float
    beats: int = 0
    condition: str = ""
    message: str = ""


def record(kind: type[T], row: Row[Any]) -> T:
    """A record from a row that has (at least) its columns."""
    columns = dict(row._mapping)
    columns |= read_texts(columns)
    if issubclass(kind, Figures):
        columns |= {**Figures().figures(), **from_json(columns["figures"])}
    return kind(**{field.name: columns[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def values(record_: Any) -> dict[str, Any]:
    """Column values of a record."""
    if isinstance(record_, Figures):
        apart = record_.figures()
        columns = {field.name: getattr(record_, field.name) for field in fields(record_) if field.name not in apart}
        columns["figures"] = to_json(record_)
    else:
        columns = asdict(record_)
    if columns.get("parameters"):
        columns |= {name: "" for name in TEXTS if name in columns}
    return columns
