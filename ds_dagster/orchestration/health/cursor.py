"""The health sensor's memory between ticks: the last report on each relation, versioned JSON."""

import json
from dataclasses import asdict, dataclass, field, replace

from ds_dagster.runtime.processes.liveness import DEFAULT_ENGINE

CURSOR_VERSION = 3


@dataclass(frozen=True, slots=True)
class Said:
    """The last report on one relation. Times are seconds since the epoch.

    Attributes:
        position: incarnations and batches of the last observation or heartbeat, so that nothing is reported twice.
        rows: figure that freshness follows (time of the last rows, or the watermark), as of the last heartbeat.
        beat, observed, checked: last heartbeat materialization, last observation, last full set of check results.
        run: the run that planned this asset last; settled: the run after whose end the checks were written again.
        verdicts: check → mark of the verdict last reported.
    """

    position: str = ""
    rows: str = ""
    beat: float = 0.0
    observed: float = 0.0
    checked: float = 0.0
    run: str = ""
    settled: str = ""
    verdicts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The whole memory. Times are seconds since the epoch.

    Attributes:
        said: reports by asset key as a slash-separated path.
        journal, since, seen: uuid of the journal, the time from which its transitions are reported, and the id of the
            last transition that became an event.
        starts: how often in a row the project's own engine was started and did not come up.
        next_start: the project's own engine is not started again before this time.
        pools: name of an engine of a compute pool → its (starts, next_start).
        unseen: how many ticks in a row could not read the journal.
    """

    said: dict[str, Said] = field(default_factory=dict)
    journal: str = ""
    since: float = 0.0
    seen: int = 0
    starts: int = 0
    next_start: float = 0.0
    pools: dict[str, tuple[int, float]] = field(default_factory=dict)
    unseen: int = 0

    def tries(self, engine: str) -> tuple[int, float]:
        """How often in a row an engine was started and did not come up, and when it may be started next."""
        return (self.starts, self.next_start) if engine == DEFAULT_ENGINE else self.pools.get(engine, (0, 0.0))

    def with_tries(self, engine: str, starts: int, next_start: float) -> "Cursor":
        """The cursor with new values for an engine, see :meth:`tries`."""
        if engine == DEFAULT_ENGINE:
            return replace(self, starts=starts, next_start=next_start)
        others = {name: tries for name, tries in self.pools.items() if name != engine}
        return replace(self, pools={**others, engine: (starts, next_start)} if starts else others)

    def of(self, key: str) -> Said:
        """The last report on one asset, an empty one before the first."""
        return self.said.get(key, Said())

    def dump(self) -> str:
        """Text for Dagster."""
        return json.dumps({"version": CURSOR_VERSION, **asdict(self)})

    @classmethod
    def load(cls, text: str | None) -> "Cursor":
        """The inverse of :meth:`dump`; empty for an unknown version or damaged text (at worst, events repeat)."""
        try:
            values = json.loads(text or "{}")
            if values.pop("version", None) != CURSOR_VERSION:
                return cls()
            said = {key: Said(**said) for key, said in values["said"].items()}
            pools = {name: (int(starts), float(later)) for name, (starts, later) in values.get("pools", {}).items()}
            return cls(**{**values, "said": said, "pools": pools})
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()
