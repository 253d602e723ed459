"""What stamps tell of two clocks: a model with a known difference, records at known times."""

from __future__ import annotations

import pytest

from ds_dagster.catalog.reading.skew import ClockSkew
from ds_dagster.stores.kafka.clock import LOOK_SECONDS, compared


class Brokers:
    """A partition that gets a record every so often, by a clock that ours is ahead of."""

    def __init__(self, ahead: float, first: float, every: float, drift: float = 0.0) -> None:
        self.now, self.ahead, self.first, self.every, self.drift = 1000.0, ahead, first, every, drift

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def newest(self) -> dict[tuple[str, int], tuple[int, float]]:
        self.now += 0.01
        count = int((self.now - self.first) // self.every) if self.every else 0
        self.now += 0.01
        return {("t", 0): (count, self.first + count * self.every - self.ahead)} if count >= 0 else {}


@pytest.mark.parametrize("ahead", [-30.0, -1.0, 0.0, 0.2, 3.0, 3600.0])
@pytest.mark.parametrize("every", [0.05, 0.3, 0.9])
def test_records_that_come_bound_the_difference_from_both_sides(ahead: float, every: float) -> None:
    brokers = Brokers(ahead, 990.0, every)
    found = compared(brokers.newest, brokers.clock, brokers.sleep)
    assert found.at_least is not None
    assert found.at_most is not None
    assert found.at_least <= ahead <= found.at_most
    assert found.at_most - found.at_least < 0.5
    if abs(ahead) >= 1.0:
        assert not found.is_harmless
    if abs(ahead) <= 0.2:
        assert found.is_harmless


@pytest.mark.parametrize(("ahead", "harmless"), [(3.0, True), (0.0, True), (-30.0, False)])
def test_old_records_alone_prove_only_that_we_are_behind(ahead: float, harmless: bool) -> None:
    brokers = Brokers(ahead, 995.0, 0.0)
    found = compared(brokers.newest, brokers.clock, brokers.sleep)
    assert found.at_least is None
    assert found.at_most is not None
    assert found.at_most >= ahead
    assert found.is_harmless is harmless
    assert brokers.now < 1000.0 + LOOK_SECONDS + 1.0


def test_nothing_is_known_of_an_empty_topic() -> None:
    brokers = Brokers(5.0, 2000.0, 1.0)
    found = compared(brokers.newest, brokers.clock, brokers.sleep)
    assert found == ClockSkew()
    assert "cannot be told" in found.text()
