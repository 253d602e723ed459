"""Settings of a job's clock in the JVM: where the time of each input comes from, and when ticks are due."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

STEP_MICROS = 50_000


@dataclass(frozen=True, slots=True)
class InputTime:
    """How the event time of one input is found. Durations in microseconds.

    Attributes:
        time: ``broker`` (LogAppendTime, Kinesis arrival) or ``record`` (a producer's timestamp or a column).
        bound_micros: how far rows may be out of order.
        least_bound_micros: the bound for a broker whose clock and delays have been measured
            (``dsdagster.time.BrokerSkew``); None: ``bound_micros``.
        idle_micros: an input or partition of ``record`` time that is empty for so long no longer holds back time.
        looks: the input is read through ``ds-timed``; if not, the clock knows only partitions with rows, and none of
            them becomes idle.
    """

    time: Literal["broker", "record"] = "record"
    bound_micros: int = 10_000_000
    least_bound_micros: int | None = None
    idle_micros: int = 10_000_000
    looks: bool = True


@dataclass(frozen=True, slots=True)
class ClockConfig:
    """The clock of one run of one job. Durations in microseconds.

    Attributes:
        inputs: input name → how its time is found; ``seen`` and ``ds-timed`` use these names.
        span_micros: the largest window or WITHIN, the sum over stacked steps; 0 for a temporal join.
        soonest_micros: shortest wait of a row; no tick is earlier. None: the span.
        grid_micros: all windows end at multiples of this, so no ticks are needed in between; 0 if other steps than
            tumbling, hopping or cumulating windows wait.
        mode: ``manual``: only ``advance_clock`` moves time; ``auto``: rows and ``advance_clock`` move it.
        step_micros: least time between two ticks.
    """

    inputs: Mapping[str, InputTime] = field(default_factory=dict)
    span_micros: int = 0
    soonest_micros: int | None = None
    grid_micros: int = 0
    mode: Literal["auto", "manual"] = "auto"
    step_micros: int = STEP_MICROS

    def json(self) -> str:
        """JSON for ``dsdagster.time.Clocks.register``."""
        return json.dumps(
            {
                "mode": self.mode,
                "span_micros": self.span_micros,
                "soonest_micros": self.span_micros if self.soonest_micros is None else self.soonest_micros,
                "grid_micros": self.grid_micros,
                "step_micros": self.step_micros,
                "inputs": {name: _given(time) for name, time in self.inputs.items()},
            }
        )


def _given(time: InputTime) -> dict[str, object]:
    return {name: value for name, value in asdict(time).items() if value is not None}
