"""``ds diff``: compares the rows of a version of a view or changelog with those of the serving version, key by key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.versions import KeepsVersions, VersionsChangelogs
from ds_dagster.errors import DsError, error
from ds_dagster.plan.query import BoundQuery
from ds_dagster.project.load import LoadedProject, kind_of_store
from ds_dagster.questions.tables import MOST_VALUES, UNCLEAR, read_of, read_whole
from ds_dagster.questions.upkeep.comparing import Counts, compared
from ds_dagster.questions.upkeep.folding import rows_of
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.beside import why_not_beside
from ds_dagster.runtime.deciding.changes import definition_of, recompiled
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.runtime.planning.difference import column_types
from ds_dagster.runtime.status import JobStatus
from ds_dagster.runtime.versioning import Versions
from ds_dagster.runtime.views import standing_of

if TYPE_CHECKING:
    import pyarrow

NOT_WRITTEN = ("VIEW_MISSING", "TABLE_NOT_LOADED", *UNCLEAR)
"""Conditions that stores raise for a version without rows."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Differences between two versions of one relation.

    Attributes:
        relation: qualified name of the relation.
        before, after: numbers of the versions.
        standing: role, progress and state of the version that is compared with the serving version, for people.
        rows_before, rows_after: numbers of rows.
        counts: differences of rows.
        types: column of both versions → its types, where they differ.
        new_columns, lost_columns: columns that only the new version has, and that only the old one has.
    """

    relation: str
    before: int
    after: int
    standing: str
    rows_before: int
    rows_after: int
    counts: Counts
    types: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    new_columns: tuple[str, ...] = ()
    lost_columns: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether readers of the old version see no difference: its rows and its columns with their types."""
        counts = self.counts
        return not (counts.added or counts.removed or counts.changed or self.types or self.lost_columns)


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of the relation: its job, its definition, and the relation in this definition."""

    job: JobRow
    status: JobStatus
    project: LoadedProject
    query: BoundQuery
    sink: Relation


def difference(
    project: LoadedProject, relation: Relation, version: int | None = None, control: Control | None = None
) -> Difference:
    """Compare a version of a relation with the serving version. Each is read as one consistent state, but at different
    times, and both may be written meanwhile.

    Args:
        project: its settings are used; the stores are those of the versions' definitions.
        relation: a view, table or changelog that has versions.
        version: number of the version to compare; None: the staged version.
        control: of the project; None: opened from its settings.

    Raises:
        UserError: DIFF_IMPOSSIBLE, DIFF_WITHOUT_VERSION, DIFF_WITHOUT_ROWS, DIFF_WITHOUT_KEY, QUESTION_TOO_LARGE,
            CHANGELOG_TOO_LARGE, CHANGELOG_ROW_UNREADABLE.
        NotYetError: DIFF_FORMAT_NOT_YET.
        DsError: the journal or a store fails.
    """
    control = control or Control.open(project.settings)
    old, new = (_version(project, relation, control, job) for job in _jobs(project, relation, control, version))
    if not old.sink.primary_key or old.sink.primary_key != new.sink.primary_key:
        keys = [", ".join(side.sink.primary_key) or "none" for side in (old, new)]
        raise error("DIFF_WITHOUT_KEY", relation=relation.name.name, before=keys[0], after=keys[1])
    before, after = _table(old), _table(new)
    types = [column_types(side.sink) for side in (old, new)]
    both = [name for name in types[0] if name in types[1]]
    return Difference(
        relation=str(relation.name),
        before=old.job.version,
        after=new.job.version,
        standing=standing_of(new.status),
        rows_before=before.num_rows,
        rows_after=after.num_rows,
        counts=compared(before, after, old.sink.primary_key),
        types=MappingProxyType({n: (types[0][n], types[1][n]) for n in both if types[0][n] != types[1][n]}),
        new_columns=tuple(name for name in types[1] if name not in types[0]),
        lost_columns=tuple(name for name in types[0] if name not in types[1]),
    )


def _jobs(project: LoadedProject, relation: Relation, control: Control, version: int | None) -> tuple[JobRow, JobRow]:
    """The jobs of the serving version, and of the version to compare with it."""
    name, query = relation.name.name, next(iter(project.queries_of(relation.name)), None)
    if query is None:
        fix = f"`ds print {name}` and `ds query` show its rows"
        raise error("DIFF_IMPOSSIBLE", relation=name, reason="no query of the project fills it", fix=fix)
    jobs = Versions(control).jobs(query.name)
    serving = jobs.get(query.name)
    if serving is None:
        fix = f"`ds apply {query.name}` starts it"
        raise error("DIFF_IMPOSSIBLE", relation=name, reason="its query was never started", fix=fix)
    others = [job for job in jobs.values() if job.role in ("staged", "promoting", "kept")]
    wanted = [job for job in others if (job.role != "kept" if version is None else job.version == version)]
    if JobSpec.from_json(serving.spec).in_turn:
        reason = f"versions of this {relation.kind} write it in turn, and one that is staged has no rows of its own"
        fix = f"`ds plan {query.name}` shows how the definitions differ; `ds print {name}` shows its rows"
        raise error("DIFF_IMPOSSIBLE", relation=name, reason=reason, fix=fix)
    if wanted:
        return serving, wanted[0]
    if version is None:
        raise _nothing_staged(project, query, control, serving, others)
    shown = ", ".join(f"{job.version} ({job.role})" for job in (serving, *others))
    is_serving = version == serving.version
    which = f"two rows of version {version}, which serves," if is_serving else f"version {version}"
    raise error("DIFF_WITHOUT_VERSION", relation=name, which=which, fix=f"its versions are: {shown}")


def _nothing_staged(
    project: LoadedProject, query: BoundQuery, control: Control, serving: JobRow, others: list[JobRow]
) -> DsError:
    """The refusal of a query without a staged version; its hint says how to get one, if that is possible."""
    name, reason = query.sink.name.name, why_not_beside(project, query, definition_of(serving, project.settings))
    if reason:
        fix = f"`ds plan {query.name}` shows how the definitions differ, and what a change needs"
        return error("DIFF_IMPOSSIBLE", relation=name, reason=reason, fix=fix)
    (change,) = control.changes(project, [query.name])
    fix = f"`ds stage {query.name}` builds the changed definition as a version"
    if change.verdict == "unchanged":
        fix = f"change its statement, then `ds stage {query.name}` builds a version: it runs with this definition now"
    if others:
        numbers = ", ".join(str(job.version) for job in others)
        fix += f"; `--version` compares a version that is kept: {numbers}"
    return error("DIFF_WITHOUT_VERSION", relation=name, which="a staged version", fix=fix)


def _version(project: LoadedProject, relation: Relation, control: Control, job: JobRow) -> _Version:
    own, query = recompiled(JobSpec.from_json(job.spec), project.settings)  # the files may name another store by now
    sink = next(sink for sink in query.sinks if sink.name == relation.name)
    return _Version(job, control.status(job.name), own, query, sink)


def _table(version: _Version) -> pyarrow.Table:
    """The rows of a version.

    Raises:
        UserError: DIFF_WITHOUT_ROWS.
        DsError: as :func:`difference`.
    """
    try:
        table = _rows(version)
    except DsError as problem:
        if problem.condition not in NOT_WRITTEN or version.status.batch is not None:
            raise
        table = None
    if table is not None:
        return table
    status = version.status
    state = standing_of(status) or status.state.lower()
    fix = f"`ds ps` shows its progress, `ds logs {status.name}` its log"
    if status.hint:
        fix = f"{status.message}: {status.hint}"
    raise error("DIFF_WITHOUT_ROWS", relation=version.sink.name.name, version=status.version, state=state, fix=fix)


def _rows(version: _Version) -> pyarrow.Table | None:
    """The rows of a version; None if a topic does not exist yet."""
    project, sink, job = version.project, version.sink, version.job
    kind, is_public = kind_of_store(project, sink), job.role == "serving"
    if sink.kind == "changelog":
        assert isinstance(kind, VersionsChangelogs)
        return rows_of(project, sink, sink.entity if is_public else kind.version_entity(sink.entity, job.version))
    read = read_of(project, sink)
    if not is_public:
        assert isinstance(kind, KeepsVersions)
        read = replace(read, path=kind.version_path(read.path, job.version))
    return read_whole(project, sink, read, MOST_VALUES)


def document(result: Difference) -> Mapping[str, Any]:
    """The JSON that ``ds diff --json`` prints."""
    counts = result.counts
    return {
        "relation": result.relation,
        "versions": {"before": result.before, "after": result.after},
        "standing": result.standing,
        "rows": {"before": result.rows_before, "after": result.rows_after},
        **{name: getattr(counts, name) for name in ("added", "removed", "changed")},
        "columns": dict(counts.columns),
        "types": {name: {"before": before, "after": after} for name, (before, after) in result.types.items()},
        "new_columns": list(result.new_columns),
        "lost_columns": list(result.lost_columns),
        "samples": [dict(sample) for sample in counts.samples],
    }


def sample_text(sample: Mapping[str, Any]) -> str:
    """A sample as one line of text: ``+``, ``-`` or ``~``, the key, and the values."""
    mark = "+" if sample["before"] is None else "-" if sample["after"] is None else "~"
    sides = [json.dumps(side, ensure_ascii=False) for side in (sample["before"], sample["after"]) if side is not None]
    return f"{mark} {json.dumps(sample['key'], ensure_ascii=False)}  {' → '.join(sides)}"
