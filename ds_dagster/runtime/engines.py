"""The engines of a project as readers see them: the project's own engine, and one per compute pool."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ds_dagster.clock import Clock
from ds_dagster.errors import DsError
from ds_dagster.runtime.deciding.placing import needs_engine, placed_in
from ds_dagster.runtime.journals import rows
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.launchers.base import Launcher
from ds_dagster.runtime.processes.liveness import DEFAULT_ENGINE, EngineWatch, Heard, engine_name, pool_name
from ds_dagster.runtime.processes.places import Places
from ds_dagster.runtime.status import EngineStatus
from ds_dagster.runtime.views import JobSurroundings


@dataclass(frozen=True, slots=True)
class Engines:
    """Observes engines and starts them. ``places``: of the project's own engine; ``launcher``: starts the project's own
    engine, and makes the launchers of the pools' engines."""

    journal: Journal
    clock: Clock
    launcher: Launcher
    places: Places
    _watches: dict[str, EngineWatch] = field(default_factory=dict, init=False)
    _launchers: dict[str, Launcher] = field(default_factory=dict, init=False)

    def statuses(self, needed: Collection[str] | None = None) -> Sequence[EngineStatus]:
        """The project's own engine, also if it never ran; then engines of compute pools that live or are needed. If
        there are engines of pools, the project's own is left out while it is gone and not needed.

        Args:
            needed: result of :meth:`needed`, if the caller has it; None: it is read.
        """
        own, needed = self.watch().status(), self.needed() if needed is None else needed
        others = ((pool, self.watch(pool).status()) for pool in sorted({*self._seen(), *needed} - {""}))
        there = tuple(status for pool, status in others if status.state != "GONE" or pool in needed)
        is_left_out = there and own.state == "GONE" and "" not in needed
        return there if is_left_out else (own, *there)

    def needed(self) -> frozenset[str]:
        """Compute pools whose engine some job needs, by :func:`ds_dagster.runtime.deciding.placing.needs_engine`. The
        empty name is the project's own engine."""
        if not self._is_readable():
            return frozenset()
        with self.journal.read() as connection:
            jobs, requests = rows.jobs(connection), rows.open_requests(connection)
        runs = [name for name, request in requests.items() if request.state != "STEP"]
        return frozenset(placed_in(job, jobs) for job in jobs.values() if needs_engine(job, runs))

    def ensure_needed(self, wait: float, names: Collection[str]) -> None:
        """See :meth:`ds_dagster.runtime.control.Control.ensure_engines`."""
        needed = self.needed() or {""}
        if len(needed) == 1:
            self.ensure(wait, *needed)
            return
        with self.journal.read() as connection:
            jobs = rows.jobs(connection)
        own = {placed_in(jobs[name], jobs) for name in names if name in jobs} & needed
        self._each(sorted(needed - own), 0.0, is_heard=False)
        if self.launcher.name == "local":
            self._each(sorted(own), 0.0, is_heard=True)
        self._each(sorted(own), wait, is_heard=True)

    def ensure(self, wait: float, pool: str) -> EngineStatus:
        """See :meth:`ds_dagster.runtime.control.Control.ensure_engine`."""
        if pool not in self._launchers:
            self._launchers[pool] = self.launcher.for_pool(pool) if pool else self.launcher
        status = self._launchers[pool].ensure(self.watch(pool).status, wait)
        if status.state == "RUNNING":
            self.journal.exists()
        return status

    def places_of(self, engine: str) -> Places:
        """Locks and logs of an engine, by its name."""
        return replace(self.places, pool=pool_name(engine))

    def watch(self, pool: str = "") -> EngineWatch:
        """The watch over the engine of a pool (empty: the project's own engine); always the same object."""
        if pool not in self._watches:
            places, listen = self.places_of(engine_name(pool)), partial(self._heard, pool)
            self._watches[pool] = EngineWatch(places, self.clock, self.shares_host(), listen)
        return self._watches[pool]

    def shares_host(self) -> bool:
        """Whether the files of the engines are on this machine."""
        return self.journal.local is not None or self.launcher.shares_host

    def surroundings(self, pool: str, held: frozenset[str]) -> JobSurroundings:
        """Facts about an engine for the statuses of its jobs. ``held``: jobs that Dagster steps run."""
        watch = self.watch(pool)
        engine = watch.status()
        return JobSurroundings(engine, self.journal.identity(), watch.silent_for(), self.clock.now(), held, pool)

    def _each(self, pools: Sequence[str], wait: float, *, is_heard: bool) -> None:
        """Ensure all of these engines; afterwards raise the first failure, if ``is_heard``."""
        problems: list[DsError] = []
        for pool in pools:
            try:
                self.ensure(wait, pool)
            except DsError as problem:
                problems.append(problem)
        if problems and is_heard:
            raise problems[0]

    def _heard(self, pool: str) -> Heard:
        """What the journal says of an engine, also in a journal of an older version: the caller must know whether an
        engine lives before a new one migrates the journal."""
        if not self.journal.exists(older=True):
            return Heard(None, 0.0)
        with self.journal.read() as connection:
            return rows.heard(connection, engine_name(pool), self.clock.now())

    def _seen(self) -> frozenset[str]:
        """Pools whose engine has run at least once."""
        if not self._is_readable():
            return frozenset()
        with self.journal.read() as connection:
            return frozenset(rows.engine_names(connection)) - {DEFAULT_ENGINE}

    def _is_readable(self) -> bool:
        """Whether the journal exists and is of today's version; older journals have no pools."""
        try:
            return self.journal.exists()
        except DsError as problem:
            if problem.condition != "JOURNAL_OLDER":
                raise
            return False
