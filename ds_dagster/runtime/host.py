"""What hosts queries, as the reconciler sees it: a protocol, so that reconciling needs no Spark.

The host is asked by level, not by event: :meth:`Host.observe` tells what is, as often as it is asked, until
:meth:`Host.forget`. So nothing is lost when the journal cannot be written for a while.
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
    """A shape of a source that the history of a job knows: the version of a schema with an empty text, or the digest
    and the text of a table's columns."""

    version: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class SourceShape:
    """The newest shape of a source.

    Attributes:
        key: what has it: ``registry/subject``, ``store/table``.
        version, text: see :class:`KnownShape`.
        before: the version that was known.
        change: what the difference to that one means; None without one.
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
        name, incarnation: who, and which start of it.
        spec: definition.
        identity: of its writes.
        checkpoint_version: version to run with.
        started, progressed: whether the journal knows of an earlier start, and of a finished batch, with this version.
        skips: records it passes.
        begins: see ``schema.JOBS``.
        writes_as: see ``JobRow``; names its checkpoint.
        place: version whose place its tables have beside the public ones; 0: it writes the public ones.
        shapes: of its sources that its history knows, by key.
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
        """Whose checkpoint it has."""
        return self.writes_as or self.name

    @property
    def finite(self) -> bool:
        """Whether it ends by itself when what is available is read."""
        return self.spec.is_finite


NOTHING = Figures()


@dataclass(frozen=True, slots=True)
class Observation:
    """One incarnation now.

    Attributes:
        incarnation: which start it is.
        phase: ``running`` only with proof: a finished batch, or all sources seen empty.
        progress: figures, also of the last moment before it ended.
        failure: why it failed (phase ``failed``).
        loaded: rows the run loaded in all, by the sink's ledger (phase ``finished``).
        busy: it was in a batch when it was last observed.
        shapes: the newest shapes of its sources that were found.
        outdated: why it has to start again to read by the newest schema of its records; empty where it need not.
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
    """Something to do in the stores of two versions of a query, or of one.

    Attributes:
        kind: ``serve``: the tables of ``order`` take the public names, those that have them go to the places of
            version ``former``; streams are written by ``order`` from where ``serving`` stopped. ``drop``: the tables of
            ``order`` go, with its checkpoint. ``rename``: the tables of ``serving`` get the names that ``order`` has
            for them. Each may be done twice; ``drop`` by two engines at the same time, where the query moves from one
            to the other meanwhile.
        order: of the version, whose query is stopped.
        former: version that serves until then (kind ``serve``).
        serving: its order; it is stopped too (kind ``serve``). Of kind ``rename``: the definition before.
    """

    kind: Literal["serve", "drop", "rename"]
    order: StartOrder
    former: int = 0
    serving: StartOrder | None = None


class Host(Protocol):
    """Runs incarnations. No method waits for a query: they give orders, :meth:`observe` reports the outcome."""

    def ready(self) -> bool:
        """Whether orders are being carried out (before that they are kept).

        Raises:
            DsError: the host cannot live (no Java, the JVM has died: ENGINE_JVM_DIED, or of its memory:
                ENGINE_OUT_OF_MEMORY); the engine ends.
        """

    def start(self, order: StartOrder) -> None:
        """Start an incarnation; failures are observed, not raised."""

    def stop(self, name: str) -> None:
        """End a query after the batch it is in."""

    def fence(self, order: StartOrder) -> None:
        """Make sure that nothing an ended job left open in its sink blocks readers (best effort)."""

    def run_errand(self, errand: Errand) -> None:
        """Do it in the background, unless it is under way."""

    def errands(self) -> Mapping[str, DsError | None]:
        """Errands that ended since the last call, by job: None, or why it failed."""

    def forget(self, name: str) -> None:
        """The end of an incarnation was recorded; it need not be observed any more."""

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
