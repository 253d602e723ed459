"""The load that a project is sized for: rows per second, keys, and bytes per record, as a person states them or as
running jobs show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.sizing.coefficients import read_table
from ds_dagster.runtime.status import JobStatus

ALL = "*"
"""Name of the entry for all names without an entry of their own."""
KINDS = ("rows", "keys", "bytes")
MOST: Mapping[str, float] = MappingProxyType({"rows": 1e9, "keys": 1e12, "bytes": 1e9})
"""Kind → the largest number for it: beyond any store, so that a larger one is a slip of the pen."""
RECORD_BYTES = 300.0
"""Size of a record if none is stated."""

Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of a running job.

    Attributes:
        rows: rows per second that it reads; 0 while it waits for records, which does not count as its load.
        ratio: rows it writes for each row it reads; None if its sink does not report them.
        state_rows, state_bytes: size of its state.
        fastest: rows per second of its fastest batch; None without one.
    """

    rows: float
    ratio: float | None
    state_rows: int
    state_bytes: int
    fastest: float | None


@dataclass(frozen=True, slots=True)
class ExpectedLoad:
    """Rows per second and bytes per record by relation, keys by query; ``*`` for all others.

    ``measured``: by query, used where nothing is stated.
    """

    rows: Numbers = field(default_factory=dict)
    keys: Numbers = field(default_factory=dict)
    bytes: Numbers = field(default_factory=dict)
    measured: Mapping[str, Measured] = field(default_factory=dict)

    def rows_of(self, relation: Relation) -> float | None:
        """Stated rows per second; None if not stated."""
        return _entry(self.rows, str(relation.name), relation.name.name)

    def bytes_of(self, relation: Relation) -> float:
        """Bytes of a record; :data:`RECORD_BYTES` if not stated."""
        stated = _entry(self.bytes, str(relation.name), relation.name.name)
        return RECORD_BYTES if stated is None else stated

    def keys_of(self, query: str) -> float | None:
        """Stated number of different keys in a query's state; None if not stated."""
        return _entry(self.keys, query)

    def with_measured(self, jobs: Iterable[JobStatus]) -> ExpectedLoad:
        """This load with the figures of serving jobs that run and have read rows."""
        running = (job for job in jobs if job.state == "RUNNING" and job.role == "serving" and job.rows)
        return replace(self, measured={job.of: _measured(job) for job in running})


def expected_load(
    project: LoadedProject, written: Mapping[str, Iterable[str]], file: Path | None = None
) -> ExpectedLoad:
    """The load that options and a file state; options win.

    Args:
        project: whose names the entries use.
        written: ``rows``, ``keys``, ``bytes`` → texts ``NAME=NUMBER``, or ``NUMBER`` for all others.
        file: TOML with tables of the same names; ``"*"`` for all others.

    Raises:
        UserError: SIZE_FILE_INVALID, SIZE_LOAD_INVALID, SIZE_NAME_UNKNOWN.
    """
    tables = {} if file is None else read_table(file)
    for kind in tables:
        if kind not in KINDS:
            raise error("SIZE_FILE_INVALID", file=str(file), reason=f"{kind} is not one of {', '.join(KINDS)}")
    numbers: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        entries = tables.get(kind, {})
        pairs = list(entries.items()) if isinstance(entries, dict) else [(kind, None)]
        pairs += [_pair(text) for text in written.get(kind, ())]
        names = _names(project, kind)
        numbers[kind] = {_checked_name(name, names, kind): _number(kind, name, value) for name, value in pairs}
    return ExpectedLoad(numbers["rows"], numbers["keys"], numbers["bytes"])


def _pair(text: str) -> tuple[str, object]:
    name, _, number = text.rpartition("=")
    return (name.strip() or ALL), number.strip()


def _number(kind: str, name: str, value: object) -> float:
    try:
        number = float(str(value).replace("_", "").replace(",", ""))
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0 <= number <= MOST[kind]:
        raise error("SIZE_LOAD_INVALID", kind=kind, name=name, value=str(value), most=f"{MOST[kind]:,.0f}")
    return number


def _names(project: LoadedProject, kind: str) -> frozenset[str]:
    if kind == "keys":
        return frozenset(project.queries)
    relations = project.catalog.relations.values()
    return frozenset(name for relation in relations for name in (str(relation.name), relation.name.name))


def _checked_name(name: str, names: frozenset[str], kind: str) -> str:
    if name != ALL and name not in names:
        what = "query" if kind == "keys" else "relation"
        raise error("SIZE_NAME_UNKNOWN", name=name, what=what, nearest=did_you_mean(name, names))
    return name


def _entry(numbers: Numbers, *names: str) -> float | None:
    return next((numbers[name] for name in (*names, ALL) if name in numbers), None)


def _measured(job: JobStatus) -> Measured:
    ratio = None if job.rows_written is None else job.rows_written / job.rows
    return Measured(job.rows_per_second, ratio, job.state_rows, job.state_bytes, job.fastest)
