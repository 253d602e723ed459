"""The protocol of a host of queries, so that the reconciler needs no Spark.

The host reports states, not events: :meth:`Host.observe` returns the present state at every call, until
:meth:`Host.forget`. So nothing is lost while the journal cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.catalog.reading.skip import SkippedRecord
from ds_dagster.clock import Clock
from ds_dagster.errors import DsError
from ds_dagster.figures import Figures
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.deciding.spec import JobSpec
from ds_dagster.runtime.processes.joblog import JobLog
from ds_dagster.runtime.processes.places import Places
from ds_dagster.settings import Settings

Phase = Literal["starting", "running", "stopping", "stopped", "finished", "failed"]


@dataclass(frozen=True, slots=True)
class KnownShape:
    """A shape of a source in the history of a job: the version of a schema with an empty ``text``, or the digest and
    the text of a table's columns."""

    version: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class SourceShape:
    """The newest shape of a source.

    Attributes:
        key: owner of the shape: ``registry/subject``, ``store/table``.
        version, text: see :class:`KnownShape`.
        before: the version that the history had.
        change: what the difference between both versions means; None without a difference.
    """

    key: str
    version: str
    text: str = ""
    before: str = ""
    change: DsError | None = None


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Everything a host needs to start one incarnation of a job.

    Attributes:
        name, incarnation: the job, and id of this start.
        spec: definition.
        identity: of its writes.
        checkpoint_version: version to run with.
        started, progressed: whether the journal has an earlier start, and a finished batch, with this version.
        skips: records that it skips.
        begins: see ``schema.JOBS``.
        writes_as: see ``JobRow``; names its checkpoint.
        place: version number in the names of its own tables, next to the public tables; 0: it writes the public tables.
        shapes: newest shapes of its sources in its history, by key.
    """

    name: str
    incarnation: str
    spec: JobSpec
    identity: SinkIdentity
    checkpoint_version: int
    started: bool = False
    progressed: bool = False
    skips: tuple[SkippedRecord, ...] = ()
    begins: str = ""
    writes_as: str = ""
    place: int = 0
    shapes: Mapping[str, KnownShape] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def checkpoint_name(self) -> str:
        """Job name in the path of its checkpoint."""
        return self.writes_as or self.name

    @property
    def finite(self) -> bool:
        """Whether it ends by itself when all available records are read."""
        return self.spec.is_finite


NOTHING = Figures()


@dataclass(frozen=True, slots=True)
class Observation:
    """The present state of one incarnation.

    Attributes:
        incarnation: id of the start.
        phase: ``running`` only with proof: a finished batch, or all sources seen empty.
        progress: figures; after the end, the last ones.
        failure: why it failed (phase ``failed``).
        loaded: all rows that the run loaded, by the sink's ledger (phase ``finished``).
        busy: whether it was in a batch when it was last observed.
        shapes: the newest shapes of its sources.
        outdated: why it must restart to read with the newest schema of its records; empty if it need not.
    """

    incarnation: str
    phase: Phase
    progress: Figures = NOTHING
    failure: DsError | None = None
    loaded: int = 0
    busy: bool = False
    shapes: tuple[SourceShape, ...] = ()
    outdated: str = ""


@dataclass(frozen=True, slots=True)
class Errand:
    """A task in the stores of one version of a query, or of two. All kinds are idempotent.

    Attributes:
        kind: ``serve``: the tables of ``order`` get the public names, and the tables that had them get the names of
            version ``former``; ``order`` writes streams from where ``serving`` stopped. ``drop``: remove the tables and
            the checkpoint of ``order``; two engines may do it at the same time, while the query moves from one to the
            other. ``rename``: the tables of ``serving`` get the names that they have in ``order``.
        order: of the version; its query is stopped.
        former: version that serves until then (kind ``serve``).
        serving: kind ``serve``: order of version ``former``, which is stopped too; kind ``rename``: the definition
            before.
    """

    kind: Literal["serve", "drop", "rename"]
    order: StartOrder
    former: int = 0
    serving: StartOrder | None = None


class Host(Protocol):
    """Runs incarnations. No method waits for a query; :meth:`observe` reports the outcomes."""

    def ready(self) -> bool:
        """Whether orders are carried out; orders given before that are kept.

        Raises:
            DsError: the host cannot work, and the engine ends: no Java, ENGINE_JVM_DIED, ENGINE_OUT_OF_MEMORY.
        """

    def start(self, order: StartOrder) -> None:
        """Start an incarnation; :meth:`observe` reports failures, none is raised."""

    def stop(self, name: str) -> None:
        """End a query after its present batch."""

    def fence(self, order: StartOrder) -> None:
        """Make sure that nothing an ended job left open in its sink blocks readers (best effort)."""

    def run_errand(self, errand: Errand) -> None:
        """Carry out an errand in the background, unless it is already under way."""

    def errands(self) -> Mapping[str, DsError | None]:
        """Errands that ended since the last call: name of the job in ``order`` → the failure, None without one."""

    def forget(self, name: str) -> None:
        """The end of an incarnation was recorded: :meth:`observe` no longer has to report it."""

    def observe(self) -> Mapping[str, Observation]:
        """All incarnations, by job."""

    def close(self) -> None:
        """End everything; never raises."""


@dataclass(frozen=True, slots=True)
class HostContext:
    """Arguments of a host. ``redactor`` gets every secret that is resolved."""

    settings: Settings
    places: Places
    clock: Clock
    checkpoints: Checkpoints
    log: JobLog
    redactor: Redactor


HostFactory = Callable[[HostContext], Host]
