"""Which engine a job belongs to. All engines of a project follow this rule:

A job with a query belongs to the engine that runs the query, until that engine has stopped it or is gone. Any other job
belongs to the engine of the compute pool it is placed in. So the old engine stops a job before the new one starts it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ds_dagster.runtime.journals.records import JobRow, StatusRow
from ds_dagster.runtime.journals.schema import STEP
from ds_dagster.runtime.journals.states import ACTIVE


def shown_pool(pool: str) -> str:
    """The engine of a pool, for people. ``pool``: empty for the project's own engine."""
    return f"compute pool {pool}" if pool else "the project's own engine"


def needs_engine(job: JobRow, open_runs: Collection[str]) -> bool:
    """Whether an engine has something to do for a job. ``open_runs``: jobs with a finite run that is not over."""
    is_changing = job.role in ("promoting", "dropping") or bool(job.becomes)
    return job.desired == "RUNNING" or is_changing or job.name in open_runs


def placed_in(job: JobRow, jobs: Mapping[str, JobRow]) -> str:
    """Pool that a job is placed in: for all versions of a query, the pool of the serving version."""
    return jobs.get(job.of, job).pool


def held_in(status: StatusRow | None) -> str | None:
    """Pool whose engine runs a query of the job; None if no engine does."""
    if status is None or status.state not in ACTIVE or status.writer == STEP:
        return None
    return status.pool


def pool_of(job: JobRow, jobs: Mapping[str, JobRow], status: StatusRow | None) -> str:
    """Pool of the only engine that acts on the job now."""
    held = held_in(status)
    return placed_in(job, jobs) if held is None else held


def whole(own: Mapping[str, JobRow], jobs: Mapping[str, JobRow], leaving: Collection[str]) -> Mapping[str, JobRow]:
    """Jobs of an engine, without queries of which another engine has a version, or will have one.

    Args:
        own, jobs: jobs of the engine, and all jobs.
        leaving: jobs of the engine that move to another engine.
    """
    if len(jobs) == len(own) and not leaving:
        return own
    split = {job.of for name, job in jobs.items() if name not in own or name in leaving}
    return {name: job for name, job in own.items() if job.of not in split}
