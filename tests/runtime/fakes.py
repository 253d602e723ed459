"""Stand-ins for the runtime's tests: a clock that is moved by hand, a host that does what it is told, projects of a
few queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sqlalchemy import update

from ds_dagster.catalog.io_spec import RefreshMode
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.datatypes import BIGINT
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError
from ds_dagster.figures import Figures
from ds_dagster.names import QualifiedName
from ds_dagster.plan.nodes.rows import Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.host import Errand, Observation, StartOrder
from ds_dagster.runtime.journals import rows, schema
from ds_dagster.runtime.journals.journal import Journal
from ds_dagster.runtime.journals.records import StatusRow
from ds_dagster.runtime.processes.liveness import DEFAULT_ENGINE
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import InsertInto, Origin, SelectBody, WrittenName


@dataclass
class FakeClock:
    """Time stands still unless a test moves it; sleeping moves it."""

    wall: float = 1_700_000_000.0
    ticks: float = 100.0
    on_sleep: object = None

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.ticks

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        if callable(self.on_sleep):
            self.on_sleep()

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.ticks += seconds


@dataclass
class FakeHost:
    """Keeps the orders it gets; a test says what became of them."""

    orders: list[StartOrder] = field(default_factory=list)
    seen: dict[str, Observation] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)
    fenced: list[str] = field(default_factory=list)
    under_way: list[Errand] = field(default_factory=list)
    outcomes: dict[str, DsError | None] = field(default_factory=dict)
    problem: DsError | None = None
    stops_at_once: bool = True

    def ready(self) -> bool:
        if self.problem is not None:
            raise self.problem
        return True

    def start(self, order: StartOrder) -> None:
        assert order.name not in self.seen, "two incarnations at once"
        self.orders.append(order)
        self.seen[order.name] = Observation(order.incarnation, "starting")

    def stop(self, name: str) -> None:
        self.stops.append(name)
        if name in self.seen:
            self.says(name, "stopped" if self.stops_at_once else "stopping")

    def fence(self, order: StartOrder) -> None:
        self.fenced.append(order.name)

    def run_errand(self, errand: Errand) -> None:
        if errand not in self.under_way:
            self.under_way.append(errand)

    def errands(self) -> Mapping[str, DsError | None]:
        outcomes, self.outcomes = self.outcomes, {}
        return outcomes

    def does(self, problem: DsError | None = None) -> Errand:
        """The errand under way ends."""
        errand = self.under_way.pop()
        self.outcomes[errand.order.name] = problem
        return errand

    def forget(self, name: str) -> None:
        self.seen.pop(name, None)

    def observe(self) -> Mapping[str, Observation]:
        return dict(self.seen)

    def close(self) -> None:
        self.seen.clear()

    def says(self, name: str, phase: str, **values: object) -> None:
        self.seen[name] = dataclasses.replace(self.seen[name], phase=phase, **values)  # type: ignore[arg-type]

    def works(self, name: str, **progress: object) -> None:
        """It runs and has finished a batch."""
        self.says(name, "running", progress=Figures(**{"batch": 0, **progress}))  # type: ignore[arg-type]


def engine_says(control: Control, *statuses: StatusRow) -> None:
    """The engine that holds the lease writes these statuses; nobody's where none ever ran."""
    with control.journal.write() as connection:
        holder = rows.engine(connection, DEFAULT_ENGINE)
        rows.save_statuses(connection, statuses, writer="" if holder is None else holder.token)


def settings_in(folder: Path) -> Settings:
    return Settings(root=folder, sql=folder / "sql", state=folder / ".ds")


_SPAN = Span("sql/test.sql", 1)


def _relation(name: str) -> Relation:
    return Relation(
        name=QualifiedName("db", "public", name),
        kind="stream",
        store="s",
        entity=name,
        columns=(Column("x", BIGINT),),
        span=_SPAN,
        origin=Origin(_SPAN, name),
    )


def query(name: str, source: str, meaning: str = "1", refresh: RefreshMode = "continuous") -> BoundQuery:
    """A query that copies one relation; ``meaning`` makes its fingerprint."""
    scan = Scan(_relation(source), "a", "a_1")
    part = Part(
        name=name,
        statement=InsertInto(
            origin=Origin(_SPAN, name),
            target=WrittenName((name,), _SPAN),
            body=SelectBody(tree=None, span=_SPAN),  # type: ignore[arg-type]
        ),
        root=Sink(scan, _relation(name), ("a$x",)),
        refresh=refresh,
        fingerprint=f"v1:{name}:{meaning}",
        state_signature=f"s1:{name}:{meaning}",
    )
    return BoundQuery.of(part)


def project(settings: Settings, *queries: BoundQuery) -> LoadedProject:
    """A project of these queries (sources first)."""
    depends = {q.sink.name: q.sources for q in queries}
    return LoadedProject(
        settings=settings,
        catalog=None,  # type: ignore[arg-type]
        queries=MappingProxyType({q.name: q for q in queries}),
        depends_on=MappingProxyType(depends),
    )


@contextmanager
def until(seconds: float = 20.0) -> Iterator[object]:
    """A deadline for polling on state: ``while not done(): tick()``; raises AssertionError when time is over."""
    import time

    end = time.monotonic() + seconds

    def tick() -> None:
        assert time.monotonic() < end, "time is over"
        time.sleep(0.02)

    yield tick


STATUS_4 = """
CREATE TABLE ds_status (
    name VARCHAR(255) NOT NULL PRIMARY KEY, state VARCHAR(16) NOT NULL, since FLOAT NOT NULL,
    condition VARCHAR(64) NOT NULL, message TEXT NOT NULL, hint TEXT NOT NULL, detail TEXT NOT NULL,
    incarnation VARCHAR(32) NOT NULL, generation BIGINT NOT NULL, checkpoint_version INTEGER NOT NULL,
    fingerprint TEXT NOT NULL, figures TEXT NOT NULL, beat FLOAT, next_retry FLOAT, attempts INTEGER NOT NULL,
    started FLOAT, writer VARCHAR(32) NOT NULL
)
"""


def as_schema_4(journal: Journal) -> None:
    """The journal as the version with schema 4 made it, without a status."""
    with journal.write() as connection:
        connection.exec_driver_sql("DROP TABLE ds_status")
        connection.exec_driver_sql(STATUS_4)
        for added in ("ds_transitions DROP COLUMN parameters", "ds_requests DROP COLUMN parameters"):
            connection.exec_driver_sql(f"ALTER TABLE {added}")
        for added in ("skips", "begins", "query", "version", "role", "latest", "identity", "becomes", "pool"):
            connection.exec_driver_sql(f"ALTER TABLE ds_jobs DROP COLUMN {added}")
        connection.execute(update(schema.META).where(schema.META.c.name == "schema").values(value="4"))
