"""The demo as a sequence of steps: servers, entities, records, Dagster, materialization, results. The demo stops
everything it has started, even if a step fails."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from ds_dagster import local
from ds_dagster.demo import data, model
from ds_dagster.demo.dagster_dev import AssetPath, DagsterDev
from ds_dagster.demo.feeding import Feeder
from ds_dagster.demo.observed import Compared, compare, personal_records, timed_rows
from ds_dagster.errors import DsError, error
from ds_dagster.local.addresses import LocalAddresses
from ds_dagster.project.load import LoadedProject, kind_of_store, load_project, store_admin
from ds_dagster.questions.answers import ask_rows
from ds_dagster.questions.binding import bind_question
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.settings import Settings, load_settings
from ds_dagster.sql.script import parse_select

Say = Callable[[str], None]
RUN_SECONDS = 600.0
RESULT_SECONDS = 240.0
POLL_SECONDS = 0.5
SLOW_SECONDS = 1.0
TRICKLE_SECONDS = 0.2
LIVE_QUESTION = "SELECT url, visits FROM url_visits ORDER BY visits DESC LIMIT 1"
DERIVED = ("user_clicks", "desktop_clicks", "url_region_click_count", "url_device_click_count", "pageviews_enriched")
LOAD = "region_clicks"


@dataclass(slots=True)
class Show:
    """One run of the demo.

    Attributes:
        root: the example project's folder.
        clicks: number of clicks to feed.
        say: receives a line per step.
        port: of Dagster's UI, None for a free one.
    """

    root: Path
    clicks: int
    say: Say
    port: int | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def check(self) -> list[Compared]:
        """Feed, run, compare with the model, stop everything.

        Raises:
            DsError: a step failed.
        """
        with self._stage() as (project, feeder, dagster):
            phases = list(data.phases(self.clicks))
            half = len(phases) // 2
            self._feed(feeder, phases[:half])
            assets = self._materialize(dagster)
            self._feed(feeder, phases[half:])
            times = (timed_rows(project, "pageviews_kinesis"), timed_rows(project, "users_kafka"))
            expected = (*model.expected(phases), model.enriched(*times))
            with self._step("comparing with the model"):
                self._compared(project, [e for e in expected if e.relation != LOAD])
            load = [path for path in assets if path[-1] == LOAD]
            if load:
                self._run(dagster, load, "loading the warehouse once more")
            with self._step("comparing everything once more"):
                results = self._compared(project, expected)
            leaked = personal_records(project, DERIVED)
            return [*results, Compared("personal data in topics", 0, len(leaked), 0, len(leaked), tuple(leaked))]

    def run(self, is_live: bool) -> None:
        """Feed, run, print what to look at, and feed some clicks a second until interrupted.

        Args:
            is_live: True (a terminal): update one line with the live count; False: print a line now and then.
        """
        with self._stage() as (project, feeder, dagster):
            self._feed(feeder, list(data.phases(self.clicks)))
            self._materialize(dagster)
            self._where_to_look(dagster)
            self._trickle(project, feeder, is_live)

    # -- the stage -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _stage(self) -> Iterator[tuple[LoadedProject, Feeder, DagsterDev]]:
        """Start servers, entities and Dagster; they are stopped at the end of the ``with`` block."""
        with _signals_as_interrupts(), self._stack as stack:
            settings = load_settings(self.root)
            addresses = self._servers(settings, stack)
            project = load_project(self.root, settings=load_settings(self.root), strict=True)
            self._entities(project)
            stack.callback(self._stop_engine, project.settings)
            feeder = stack.enter_context(Feeder(addresses))
            with self._step("starting dagster dev"):
                log = project.settings.state / "logs" / "dagster.log"
                dagster = DagsterDev.start(self.root, log, self.port)
                stack.callback(self._stop_dagster, dagster)
                dagster.wait_ready()
            yield project, feeder, dagster

    def _servers(self, settings: Settings, stack: ExitStack) -> LocalAddresses:
        running = {server.name for server in local.status(settings.state) if server.state == "running"}
        ours = [name for name in ("kafka", "kinesis", "postgres") if name not in running]
        if ours:
            stack.callback(self._stop_servers, settings.state, ours)
        with self._step("starting local servers"):
            return local.up(settings.state, progress=self.say)

    def _entities(self, project: LoadedProject) -> None:
        """Create the entities that the example reads and does not write, with the declared counts."""
        with self._step("creating topics and streams"):
            for relation in project.catalog.relations.values():
                if not relation.declared or relation.kind not in ("stream", "changelog"):
                    continue
                store = project.catalog.store(relation.store)
                admin = store_admin(project, store.name, resolver(project.settings, store.name))
                try:
                    admin.ensure(kind_of_store(project, relation).entity_plan(relation))
                finally:
                    admin.close()

    def _stop_dagster(self, dagster: DagsterDev) -> None:
        with self._step("stopping dagster dev"):
            dagster.stop()

    def _stop_engine(self, settings: Settings) -> None:
        """Stop the engine after the jobs' current batches, or at once if that takes too long."""
        with self._step("stopping the engine"):
            try:
                stop_engine(settings)
            except DsError as problem:
                self.say(problem.message)
                stop_engine(settings, kill=True)

    def _stop_servers(self, state: Path, names: Sequence[str]) -> None:
        with self._step("stopping local servers"):
            local.down(state, only=names)

    # -- acts ----------------------------------------------------------------------------------------------------------

    def _feed(self, feeder: Feeder, phases: Sequence[data.Phase]) -> None:
        with self._step("feeding users and clicks"):
            count = 0
            for phase in phases:
                count += feeder.send(phase.changes)
                feeder.next_phase()
                count += feeder.send(phase.events)
                feeder.next_phase()
        self.say(f"fed {count:,} records")

    def _materialize(self, dagster: DagsterDev) -> list[AssetPath]:
        assets = dagster.executable_assets()
        self._run(dagster, assets, f"materializing {len(assets)} assets through Dagster")
        return assets

    def _run(self, dagster: DagsterDev, assets: Sequence[AssetPath], what: str) -> None:
        control = Control.open(load_settings(self.root))
        states: dict[str, str] = {}

        def tell() -> None:
            for status in control.statuses():
                if status.state in ("RUNNING", "FAILED", "BACKING_OFF") and states.get(status.name) != status.state:
                    states[status.name] = status.state
                    self.say(f"{status.name}: {status.state.lower().replace('_', ' ')} {status.message}".rstrip())

        with self._step(what):
            deadline = time.monotonic() + RUN_SECONDS
            status = dagster.wait_run(dagster.materialize(assets), RUN_SECONDS, tell)
            while status == "FAILURE" and time.monotonic() < deadline and _on_the_way(control):
                self.say("some queries needed longer than a launch waits: materializing again, which adopts them")
                status = dagster.wait_run(dagster.materialize(assets), deadline - time.monotonic(), tell)
            if status != "SUCCESS":
                failed = [s for s in control.statuses() if s.state not in ("RUNNING", "FINISHED")]
                detail = "\n".join(f"{s.name}: {s.state} {s.condition} {s.message} {s.detail}".rstrip() for s in failed)
                raise error("DEMO_FAILED", step=f"{what} ({status})", logs=str(dagster.log.parent), detail=detail)

    def _compared(self, project: LoadedProject, expected: Sequence[model.Expected]) -> list[Compared]:
        """Compare until all relations agree or the time is over; returns the last comparison of each."""
        deadline = time.monotonic() + RESULT_SECONDS
        results: dict[str, Compared] = {}
        while True:
            for wanted in expected:
                if wanted.relation not in results or not results[wanted.relation].ok:
                    results[wanted.relation] = compare(project, wanted)
            if all(result.ok for result in results.values()) or time.monotonic() > deadline:
                return list(results.values())
            time.sleep(POLL_SECONDS)

    def _where_to_look(self, dagster: DagsterDev) -> None:
        self.say("everything runs; look around:")
        self.say(f"  Dagster        {dagster.url}/asset-groups")
        self.say(f"  jobs           cd {self.root} && ds ps")
        self.say('  ask a view     ds query "SELECT url, visits FROM url_visits ORDER BY visits DESC"')
        self.say("  see a topic    ds print user_clicks --from-beginning --limit 5")
        self.say("  try            kill -9 the engine (ds engine status): Dagster's sensor brings it back")
        self.say("  end            Ctrl-C")

    def _trickle(self, project: LoadedProject, feeder: Feeder, is_live: bool) -> None:
        """Feed some clicks a second until interrupted."""
        chance = random.Random(data.SEED + 1)
        position, reported_at = self.clicks, 0.0
        while True:
            feeder.send([data.click(chance, position)])
            position += 1
            now = time.monotonic()
            if now - reported_at >= (1.0 if is_live else 10.0):
                reported_at = now
                self._tell_live(project)
            time.sleep(TRICKLE_SECONDS)

    def _tell_live(self, project: LoadedProject) -> None:
        try:
            rows = ask_rows(project, bind_question(project, parse_select(LIVE_QUESTION)))
        except DsError as problem:
            self.say(problem.message)
            return
        if rows:
            self.say(f"live: {rows[0]['url']} was visited {rows[0]['visits']:,} times")

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        """Print the step that begins, and how long it took if that was more than a second."""
        self.say(what)
        began, word = time.monotonic(), "failed after"
        try:
            yield
            word = "done in"
        finally:
            took = time.monotonic() - began
            if took > SLOW_SECONDS:
                self.say(f"{what}: {word} {took:.1f} s")


def _on_the_way(control: Control) -> bool:
    """Whether no query is FAILED or STOPPED."""
    return not any(status.state in ("FAILED", "STOPPED") for status in control.statuses())


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the demo in order, even if the shell ignores them; children start with default
    signals. After the first signal further ones are ignored, so that the stopping is not interrupted."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
