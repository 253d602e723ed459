"""What to do about a version that does not serve, for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ds_dagster.runtime.journals.records import JobRow
from ds_dagster.runtime.status import Role

WAYS: Mapping[tuple[Role | None, bool], str] = {
    (None, False): "`ds stage {name}` builds it next to the running query, and `ds promote {name}` lets it take over",
    ("staged", True): "version {version} is staged with this definition: `ds promote {name}` lets it take over, "
    "`ds diff {name}` compares its rows",
    ("staged", False): "version {version} is staged with another definition: `ds abandon {name}` drops it, or "
    "`ds promote {name}` lets it take over first; then `ds stage {name}` builds this one",
    ("promoting", True): "version {version} has this definition and is taking over: `ds ps` shows it",
    ("promoting", False): "version {version}, which has another definition, is taking over: wait for it (`ds ps` shows "
    "it), or drop it with `ds abandon {name}`; then `ds stage {name}` builds this one",
}
"""Role of the version next to the serving one, and whether it has the changed definition → what to do about a change,
for people."""

STARTS_OVER = re.compile(r"`ds (?:reset|restart|repair)\b")
"""Commands for the serving version only."""

BREAKS = re.compile(r"; (?:or |else )?|, (?:or|then|and) ")
"""Places where a hint passes from one step, or from one way out, to the next."""


def way_beside(query: str, fingerprint: str, jobs: Mapping[str, JobRow]) -> str:
    """The commands that build a changed definition next to the serving version, for people.

    Args:
        query: name of the query.
        fingerprint: of the changed definition.
        jobs: of the journal.
    """
    row = next((row for row in jobs.values() if row.of == query and row.role in ("staged", "promoting")), None)
    if row is None:
        return WAYS[None, False].format(name=query)
    return WAYS[row.role, row.fingerprint == fingerprint].format(name=query, version=row.version)


def hint_of_version(hint: str, job: JobRow) -> str:
    """The hint of a job's failure. Only the serving version is reset, restarted and repaired, so the hint of another
    version ends before such a command, and says how that version is built again.

    Args:
        hint: of the condition.
        job: the version that fails.
    """
    command = STARTS_OVER.search(hint)
    if job.role == "serving" or command is None:
        return hint
    places = [place for place in BREAKS.finditer(hint) if place.start() < command.start()]
    again = _built_again(job)
    if not places:
        return again
    return f"{hint[: places[-1].start()]}{', or' if 'or' in places[-1].group() else ';'} {again}"


def _built_again(job: JobRow) -> str:
    if job.role == "kept" or job.action == "rollback":
        return f"run `ds gc --yes` to drop kept versions, then `ds stage {job.of}` to build the definition of the files"
    return f"run `ds abandon {job.of}`, then `ds stage {job.of}` to build the version again"
