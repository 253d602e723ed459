"""The health sensor's memory between ticks: what was said last about each relation, versioned JSON."""

import json
from dataclasses import asdict, dataclass, field, replace

CURSOR_VERSION = 1


@dataclass(frozen=True, slots=True)
class Said:
    """What was reported last for one relation. Times are seconds since the epoch.

    Attributes:
        position: (incarnation, batch) of the last heartbeat or observation, so that nothing is reported twice.
        beat: last heartbeat materialization; observed: last observation; checked: last full set of check results.
        verdicts: check → passed, as last reported.
    """

    position: str = ""
    beat: float = 0.0
    observed: float = 0.0
    checked: float = 0.0
    verdicts: dict[str, bool] = field(default_factory=dict)

    def with_changes(self, **changes: object) -> "Said":
        """A changed copy."""
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Cursor:
    """All of it, by asset key as a slash-separated path."""

    said: dict[str, Said] = field(default_factory=dict)

    def of(self, key: str) -> Said:
        """What was said of one asset."""
        return self.said.get(key, Said())

    def with_said(self, key: str, said: Said) -> "Cursor":
        """A changed copy."""
        return Cursor({**self.said, key: said})

    def dump(self) -> str:
        """Text for Dagster."""
        return json.dumps({"version": CURSOR_VERSION, "said": {key: asdict(said) for key, said in self.said.items()}})

    @classmethod
    def load(cls, text: str | None) -> "Cursor":
        """The inverse; an unknown version or a damaged text starts anew (at worst something is said twice)."""
        try:
            values = json.loads(text or "{}")
        except json.JSONDecodeError:
            return cls()
        if values.get("version") != CURSOR_VERSION:
            return cls()
        return cls({key: Said(**said) for key, said in values["said"].items()})
