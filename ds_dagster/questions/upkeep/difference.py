"""``ds diff``: compares the rows of a version of a view with those of the serving version, key by key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.versions import KeepsVersions
from ds_dagster.errors import error
from ds_dagster.project.load import LoadedProject, kind_of_store
from ds_dagster.questions.tables import MOST_VALUES, read_of, read_whole
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.changes import recompiled
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals import rows as journal_rows
from ds_dagster.runtime.journals.records import JobRow

if TYPE_CHECKING:
    import pyarrow

MOST_SAMPLES = 20
HERE = "here"
"""Column that is TRUE in every row: after an outer join, NULL means that the side has no such row."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Differences between two versions of one relation.

    Attributes:
        relation: qualified name of the relation.
        before, after: numbers of the versions.
        rows_before, rows_after: numbers of rows.
        added, removed, changed: numbers of keys that only the new version has, that only the old one has, and whose
            values differ.
        columns: column of both versions → number of keys whose value differs.
        new_columns, lost_columns: columns that only the new version has, and that only the old one has.
        samples: up to 20 keys that differ: ``key``, ``before`` and ``after`` (None if there is no row).
    """

    relation: str
    before: int
    after: int
    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int
    columns: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    new_columns: tuple[str, ...] = ()
    lost_columns: tuple[str, ...] = ()
    samples: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both versions have the same rows, in the columns of both."""
        return not (self.added or self.removed or self.changed)


def difference(project: LoadedProject, relation: Relation, version: int | None = None) -> Difference:
    """Compare a version of a relation with the serving version. Each is read as one consistent state, but at different
    times, and both may be written meanwhile.

    Args:
        project: with the stores.
        relation: a view or table that has versions.
        version: number of the version to compare; None: the staged version.

    Raises:
        UserError: DIFF_WITHOUT_VERSION, DIFF_WITHOUT_KEY, QUESTION_TOO_LARGE.
        DsError: the journal or a store fails.
    """
    serving, other = _jobs(project, relation, version)
    old, new = _sink(project, serving, relation), _sink(project, other, relation)
    if not old.primary_key or old.primary_key != new.primary_key:
        keys = [", ".join(sink.primary_key) or "none" for sink in (old, new)]
        raise error("DIFF_WITHOUT_KEY", relation=relation.name.name, before=keys[0], after=keys[1])
    result = compared(_table(project, old, serving), _table(project, new, other), old.primary_key)
    return replace(result, relation=str(relation.name), before=serving.version, after=other.version)


def _jobs(project: LoadedProject, relation: Relation, version: int | None) -> tuple[JobRow, JobRow]:
    """The jobs of the serving version, and of the version to compare with it."""
    control = Control.open(project.settings)
    query = next(iter(project.queries_of(relation.name)), None)
    jobs: Sequence[JobRow] = ()
    if query is not None and control.journal.exists():
        with control.journal.read() as connection:
            jobs = tuple(journal_rows.versions(connection, query.name).values())
    serving = next((job for job in jobs if job.role == "serving"), None)
    wanted = (job for job in jobs if job is not serving and version in (None, job.version))
    other = next((job for job in wanted if version is not None or job.role == "staged"), None)
    if serving is None or other is None or not isinstance(kind_of_store(project, relation), KeepsVersions):
        which = "a staged version" if version is None else f"version {version}"
        raise error("DIFF_WITHOUT_VERSION", relation=relation.name.name, which=which)
    return serving, other


def _sink(project: LoadedProject, job: JobRow, relation: Relation) -> Relation:
    """The relation in the version's definition."""
    _, query = recompiled(JobSpec.from_json(job.spec), project.settings)
    return next(sink for sink in query.sinks if sink.name == relation.name)


def _table(project: LoadedProject, sink: Relation, job: JobRow) -> pyarrow.Table:
    read = read_of(project, sink)
    if job.role != "serving":
        kind = kind_of_store(project, sink)
        assert isinstance(kind, KeepsVersions)
        read = replace(read, path=kind.version_path(read.path, job.version))
    return read_whole(project, sink, read, MOST_VALUES)


def compared(before: pyarrow.Table, after: pyarrow.Table, key: Sequence[str]) -> Difference:
    """The difference of two tables, without names and versions. Values are compared as texts; NULL equals NULL.

    Args:
        before, after: the tables; both have the columns of the key.
        key: names of the key's columns.
    """
    import duckdb

    both = [name for name in before.column_names if name in after.column_names and name not in key]
    places = {name: f"c{number}" for number, name in enumerate([*key, *both])}
    with duckdb.connect() as connection:
        for side, table in (("o", before), ("n", after)):
            part = table.select(list(places)).rename_columns(list(places.values()))
            connection.register(side, part.append_column(HERE, [_trues(part.num_rows)]))
        counts = connection.execute(_counts(places, key, both)).fetchone()
        assert counts is not None
        cursor = connection.execute(_samples(places, key, both))
        samples = [_sample(row, key, both) for row in cursor.fetchall()]
    added, removed, changed, *by_column = counts
    return Difference(
        relation="",
        before=0,
        after=0,
        rows_before=before.num_rows,
        rows_after=after.num_rows,
        added=added,
        removed=removed,
        changed=changed,
        columns=MappingProxyType({name: count for name, count in zip(both, by_column, strict=True) if count}),
        new_columns=tuple(name for name in after.column_names if name not in before.column_names),
        lost_columns=tuple(name for name in before.column_names if name not in after.column_names),
        samples=tuple(samples),
    )


def _trues(count: int) -> Any:
    import pyarrow

    return pyarrow.array([True] * count, pyarrow.bool_())


def _column(name: str, side: str) -> exp.Column:
    return exp.column(name, table=side)


def _as_text(name: str, side: str) -> exp.Expression:
    return exp.cast(_column(name, side), "text")


def _differs(place: str) -> exp.Expression:
    return exp.NullSafeNEQ(this=_as_text(place, "o"), expression=_as_text(place, "n"))


def _joined(select: exp.Select, places: Mapping[str, str], key: Sequence[str]) -> exp.Select:
    equal = [exp.NullSafeEQ(this=_as_text(places[n], "o"), expression=_as_text(places[n], "n")) for n in key]
    return select.from_("o").join("n", on=exp.and_(*equal), join_type="full")


def _cases(places: Mapping[str, str], both: Sequence[str]) -> Sequence[exp.Condition]:
    """Conditions for added, removed and changed keys."""
    added, removed = (exp.Is(this=_column(HERE, side), expression=exp.null()) for side in ("o", "n"))
    present = exp.and_(exp.not_(added.copy()), exp.not_(removed.copy()))
    other = exp.or_(*[_differs(places[name]) for name in both]) if both else exp.false()
    return added, removed, exp.and_(present, other)


def _counts(places: Mapping[str, str], key: Sequence[str], both: Sequence[str]) -> str:
    added, removed, changed = _cases(places, both)
    present = exp.and_(exp.not_(added.copy()), exp.not_(removed.copy()))
    conditions = [added, removed, changed, *(exp.and_(present.copy(), _differs(places[name])) for name in both)]
    counts = [exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=part)) for part in conditions]
    return _joined(exp.select(*counts), places, key).sql(dialect="duckdb")


def _samples(places: Mapping[str, str], key: Sequence[str], both: Sequence[str]) -> str:
    """Statement for samples: keys as texts, whether each side has the row, and the values of both sides as texts."""
    keys = [exp.func("coalesce", _as_text(places[name], "o"), _as_text(places[name], "n")) for name in key]
    values = [_as_text(places[name], side) for side in ("o", "n") for name in both]
    here = [_column(HERE, side) for side in ("o", "n")]
    select = _joined(exp.select(*keys, *here, *values), places, key).where(exp.or_(*_cases(places, both)))
    places_of_key = [exp.Literal.number(place + 1) for place in range(len(key))]
    return select.order_by(*places_of_key).limit(MOST_SAMPLES).sql(dialect="duckdb")


def _sample(row: Sequence[Any], key: Sequence[str], both: Sequence[str]) -> Mapping[str, Any]:
    """A sample of :class:`Difference`; a changed row has only the columns that differ."""
    keys, (old, new), values = row[: len(key)], row[len(key) : len(key) + 2], row[len(key) + 2 :]
    sides = [dict(zip(both, part, strict=True)) for part in (values[: len(both)], values[len(both) :])]
    if old and new:
        other = [name for name in both if sides[0][name] != sides[1][name]]
        sides = [{name: side[name] for name in other} for side in sides]
    before, after = (side if here else None for side, here in zip(sides, (old, new), strict=True))
    return {"key": dict(zip(key, keys, strict=True)), "before": before, "after": after}


def document(result: Difference) -> Mapping[str, Any]:
    """The JSON that ``ds diff --json`` prints."""
    return {
        "relation": result.relation,
        "versions": {"before": result.before, "after": result.after},
        "rows": {"before": result.rows_before, "after": result.rows_after},
        **{name: getattr(result, name) for name in ("added", "removed", "changed")},
        "columns": dict(result.columns),
        "new_columns": list(result.new_columns),
        "lost_columns": list(result.lost_columns),
        "samples": [dict(sample) for sample in result.samples],
    }


def sample_text(sample: Mapping[str, Any]) -> str:
    """A sample as one line of text: ``+``, ``-`` or ``~``, the key, and the values."""
    mark = "+" if sample["before"] is None else "-" if sample["after"] is None else "~"
    sides = [json.dumps(side, ensure_ascii=False) for side in (sample["before"], sample["after"]) if side is not None]
    return f"{mark} {json.dumps(sample['key'], ensure_ascii=False)}  {' → '.join(sides)}"
