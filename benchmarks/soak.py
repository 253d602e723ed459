"""Kill and load the example for a while: whatever is done to it, its relations hold what the model says.

``python -m benchmarks soak [--minutes 60] [--seed N]`` (minutes also by ``DS_SOAK_MINUTES``) runs the clickstream of
the example on local servers. Round by round it changes users, sends clicks, does some damage in between, brings back
what is gone as Dagster's sensor would, and compares temporal join, aggregates and views with the independent model. The
same seed sends the same records and does the same damage. Exit code 1, and the folder is kept, when anything differs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import children, say
from ds_dagster import local
from ds_dagster.demo import data, model
from ds_dagster.demo.example import copy_example, example_source
from ds_dagster.demo.feeding import Feeder
from ds_dagster.demo.observed import Compared, compare
from ds_dagster.errors import DsError
from ds_dagster.project.load import LoadedProject, kind_of_store, load_project, store_admin
from ds_dagster.runtime.connecting import resolver
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.engine import stop_engine
from ds_dagster.runtime.launchers.local import launch
from ds_dagster.runtime.processes import locks
from ds_dagster.settings import load_settings

WAIT_SECONDS = 300.0
POLL_SECONDS = 0.5
LONGEST_PAUSE = 20.0
MOST_CLICKS = 2000
SERVERS = ("kafka", "kinesis")
QUERIES = (
    "desktop_clicks", "url_device_click_count", "user_clicks", "url_region_click_count", "url_visits",
    "url_device_visits", "user_device_visits", "user_url_device_visits",
)  # fmt: skip
"""What runs: a filter, a temporal join of Kafka with Kinesis, aggregates over both, views."""

CHECKS_AT_FIRST = 20
"""So many rounds are compared one by one; later ever fewer, since a comparison reads everything."""


@dataclass
class Soak:
    """One run.

    Attributes:
        root, project, control, feeder: what it works on.
        chance: decides everything.
        phases: what has been sent, for the model.
        done: damage → how often.
        slowest: seconds from damage to everything right again.
    """

    root: Path
    project: LoadedProject
    control: Control
    feeder: Feeder
    chance: random.Random
    phases: list[data.Phase] = field(default_factory=list)
    clicks: int = 0
    done: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    @property
    def state(self) -> Path:
        return self.project.settings.state

    def run(self, until: float) -> bool:
        """Rounds until the time is over; whether everything was right."""
        self.recover()
        number = 0
        while time.monotonic() < until:
            number += 1
            self.round(number)
            if number % (1 + number // CHECKS_AT_FIRST) == 0 and not self.check(number):
                return False
        say(f"{number} rounds, {self.clicks:,} clicks; {dict(self.done)}; slowest recovery {self.slowest:.0f} s")
        return self.check(number)

    def round(self, number: int) -> None:
        """Users change, clicks come, something happens in the middle of them."""
        phase = self._phase(number)
        self.phases.append(phase)
        cut = self.chance.randrange(len(phase.events) + 1)
        damage = self.chance.choice(list(DAMAGES))
        say(f"round {number}: {len(phase.changes)} changes, {len(phase.events)} clicks, {damage}")
        self.feeder.send(phase.changes)
        self.feeder.next_phase()
        self.feeder.send(phase.events[:cut])
        DAMAGES[damage](self)
        self.done[damage] += 1
        self.feeder.send(phase.events[cut:])
        self.feeder.next_phase()
        self.recover()

    def _phase(self, number: int) -> data.Phase:
        """Everybody registers in the first round; later some change, some vanish, some come back."""
        names = [f"User_{user}" for user in range(1, data.USERS + 1)]
        if number > 1:
            names = self.chance.sample([*names, data.LATE], self.chance.randrange(6))
        changes = [
            data.Out("users", {"userid": name}, None)
            if number > 1 and self.chance.random() < 0.3
            else data.user(self.chance, name, number)
            for name in names
        ]
        events = [data.click(self.chance, self.clicks + at) for at in range(self.chance.randrange(1, MOST_CLICKS))]
        self.clicks += len(events)
        return data.Phase(tuple(changes), tuple(events))

    def recover(self) -> None:
        """Servers, engine and jobs run again."""
        local.up(self.state, only=SERVERS)
        self.control.ensure_engine(WAIT_SECONDS)
        self.control.ensure(self.project, QUERIES, "ensure", "soak")

    def check(self, number: int) -> bool:
        """Compare until everything is right or the time is up."""
        begun = time.monotonic()
        wrong = {one.relation: one for one in model.expected(self.phases) if one.relation in QUERIES}
        found: dict[str, Compared] = {}
        while wrong and time.monotonic() - begun < WAIT_SECONDS:
            for name, expected in list(wrong.items()):
                found[name] = self._compared(expected, found.get(name))
                if found[name].ok:
                    del wrong[name]
            self.recover()
            time.sleep(POLL_SECONDS)
        self.slowest = max(self.slowest, time.monotonic() - begun)
        for name in wrong:
            one = found[name]
            say(f"round {number}, {name}: {one.missing} missing, {one.extra} extra; {'; '.join(one.examples)}")
        if wrong:
            for status in self.control.statuses():
                say(f"{status.name}: {status.state} {status.condition} {status.message} {status.detail}".rstrip())
        return not wrong

    def _compared(self, expected: model.Expected, before: Compared | None) -> Compared:
        """A server that is just coming back counts as not there yet."""
        try:
            return compare(self.project, expected)
        except DsError as problem:
            return before or Compared(expected.relation, len(expected.rows), 0, len(expected.rows), 0, (str(problem),))

    # -- damage --------------------------------------------------------------------------------------------------------

    def engine_pid(self) -> int | None:
        """Of the engine's Python while it holds its lock."""
        if not locks.is_held(self.control.places.python_lock):
            return None
        return int(str(locks.holder(self.control.places.python_lock)["pid"]))

    def broker_pids(self) -> list[int]:
        """Of the broker; none if it does not run."""
        return [one.pid for one in local.status(self.state) if one.name == "kafka" and one.pid is not None]

    def kill_engine(self, *, python: bool, jvm: bool) -> None:
        """SIGKILL to either or both of its processes, without warning."""
        pid = self.engine_pid()
        if pid is None:
            return
        for victim in [*([pid] if python else []), *(_jvms(pid) if jvm else [])]:
            os.kill(victim, signal.SIGKILL)
        _until(lambda: self.engine_pid() != pid)

    def kill_broker(self) -> None:
        """Nothing of ours is in flight; the jobs' transactions are."""
        for pid in self.broker_pids():
            os.kill(pid, signal.SIGKILL)
        local.up(self.state, only=["kafka"])

    def pause(self, pids: Sequence[int]) -> None:
        """Stop processes for a while, as a suspended machine or a disk that does not answer does."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(self.chance.uniform(1, LONGEST_PAUSE))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def pause_engine(self) -> None:
        """Its Python and its JVM."""
        pid = self.engine_pid()
        self.pause([] if pid is None else [pid, *_jvms(pid)])

    def pause_broker(self) -> None:
        """Longer than some requests wait."""
        self.pause(self.broker_pids())

    def race_engine(self) -> None:
        """A second engine must end by itself, and leave the first alone."""
        pid = self.engine_pid()
        if pid is None:
            return
        code = launch(self.project.settings).wait(WAIT_SECONDS)
        if code == 0 or self.engine_pid() != pid:
            raise SystemExit(
                f"a second engine ended with {code}, and process {self.engine_pid()} has the lock of {pid}"
            )

    def ask(self, action: str) -> None:
        """Of some jobs."""
        names = self.chance.sample(QUERIES, self.chance.randrange(1, len(QUERIES)))
        self.control.ensure(self.project, names, action, "soak")  # type: ignore[arg-type]


DAMAGES: Mapping[str, Callable[[Soak], object]] = {
    "nothing": lambda _soak: None,
    "engine killed": lambda soak: soak.kill_engine(python=True, jvm=True),
    "its Python killed": lambda soak: soak.kill_engine(python=True, jvm=False),
    "its JVM killed": lambda soak: soak.kill_engine(python=False, jvm=True),
    "engine ended in order": lambda soak: stop_engine(soak.project.settings, WAIT_SECONDS),
    "broker killed": Soak.kill_broker,
    "engine paused": Soak.pause_engine,
    "broker paused": Soak.pause_broker,
    "a second engine": Soak.race_engine,
    "jobs stopped": lambda soak: soak.ask("stop"),
    "jobs restarted": lambda soak: soak.ask("restart"),
}
"""What may happen in the middle of a round."""


def _jvms(engine: int) -> list[int]:
    """The JVMs that an engine has started."""
    return [child for child in children(engine)[1:] if "java" in _program(child)]


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not done():
        if time.monotonic() > end:
            raise SystemExit("what was killed is still there")
        time.sleep(0.05)


@contextmanager
def _stage(seed: int) -> Iterator[Soak]:
    """The example in a folder of its own with its servers; kept when the block fails."""
    root = copy_example(example_source(), Path(tempfile.mkdtemp(prefix="ds-soak-")))
    settings, is_right = load_settings(root), False
    try:
        say(f"the example runs in {root}, seed {seed}")
        addresses = local.up(settings.state, only=SERVERS, progress=say)
        project = load_project(root, settings=load_settings(root), strict=True)
        _entities(project)
        with Feeder(addresses) as feeder:
            yield Soak(root, project, Control.open(project.settings), feeder, random.Random(seed))
        is_right = True
    finally:
        try:
            stop_engine(settings)
        except DsError:
            stop_engine(settings, kill=True)
        local.down(settings.state)
        if is_right:
            shutil.rmtree(root, ignore_errors=True)


def _entities(project: LoadedProject) -> None:
    """What is fed: clicks and users."""
    for relation in project.catalog.relations.values():
        if relation.name.name in ("clicks", "users"):
            store = project.catalog.store(relation.store)
            with closing(store_admin(project, store.name, resolver(project.settings, store.name))) as admin:
                admin.ensure(kind_of_store(project, relation).entity_plan(relation))


def main(arguments: Sequence[str]) -> int:
    """Run the soak; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("DS_SOAK_MINUTES", "60")))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(arguments)
    with _stage(asked.seed) as soak:
        is_right = soak.run(time.monotonic() + 60 * asked.minutes)
        if not is_right:
            raise SystemExit(f"wrong; everything is kept in {soak.root}")
    say("everything was right")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
