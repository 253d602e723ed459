"""Events of the Nexmark auction site: persons, auctions and bids, the same for the same number and seed.

Fields, proportions (1 person, 3 auctions, 46 bids of 50 events), hot keys, prices and lengths are those of the
published suite's generator (``nexmark/nexmark``, class ``GeneratorConfig`` and its neighbours). Differences:

- names of fields are in lower case, as the dialect folds them;
- records arrive out of order, up to three seconds behind;
- events are at least a millisecond apart, so that an order by time has no ties and one answer is right;
- the first event is a quarter of a minute before midnight, so that questions by day have two of them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

Kind = Literal["person", "auction", "bid"]
KINDS: tuple[Kind, ...] = ("person", "auction", "bid")

SEED = 20150715
BASE = datetime(2015, 7, 14, 23, 59, 45)  # noqa: DTZ001 - a TIMESTAMP has no zone
DISORDER_MILLIS = 3_000
"""How far an event may arrive behind a later one."""
MOST_PER_SECOND = 1_000

ROUND = 50
PERSONS, AUCTIONS = 1, 3
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PERSONS, ACTIVE_AUCTIONS = 1_000, 100
PERSON_LEAD, AUCTION_LEAD = 10, 10
HOT_EVERY = 100
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4
CHANNELS = 10_000
SIZES: dict[Kind, int] = {"person": 200, "auction": 500, "bid": 100}
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        kind: which relation it belongs to.
        row: its columns; times are naive, in UTC.
        arrival: when it arrives, the record's own timestamp; never before its event time.
        number: of the event, from 0, in order of event time.
    """

    kind: Kind
    row: dict[str, Any]
    arrival: datetime
    number: int


def events(count: int, *, per_second: int = 100, seed: int = SEED) -> list[Event]:
    """All of :func:`arriving`."""
    return list(arriving(count, per_second=per_second, seed=seed))


def arriving(count: int, *, per_second: int = 100, seed: int = SEED) -> Iterator[Event]:
    """The first ``count`` events in the order in which they arrive; no more are kept than arrive late.

    Args:
        count: how many.
        per_second: of event time, at most :data:`MOST_PER_SECOND`.
        seed: another one gives other events.

    Raises:
        ValueError: more events in a second than it has milliseconds.
    """
    if not 1 <= per_second <= MOST_PER_SECOND:
        raise ValueError(f"{per_second} events a second: 1 to {MOST_PER_SECOND} have times of their own")
    step = timedelta(milliseconds=1000 // per_second)
    waiting: list[tuple[datetime, int, Event]] = []
    for event in _Maker(random.Random(seed), step).events(count):
        while waiting and waiting[0][0] <= BASE + event.number * step:  # no later event arrives before it
            yield heapq.heappop(waiting)[2]
        heapq.heappush(waiting, (event.arrival, event.number, event))
    while waiting:
        yield heapq.heappop(waiting)[2]


def last_person(number: int) -> int:
    """Zero-based id of the newest person at an event."""
    return number // ROUND * PERSONS + min(number % ROUND, PERSONS - 1)


def last_auction(number: int) -> int:
    """Zero-based id of the newest auction at an event; -1 in front of the first."""
    epoch, offset = divmod(number, ROUND)
    if offset < PERSONS:
        return epoch * AUCTIONS - 1
    return epoch * AUCTIONS + min(offset - PERSONS, AUCTIONS - 1)


class _Maker:
    """Draws events one after the other."""

    def __init__(self, dice: random.Random, step: timedelta) -> None:
        self.dice = dice
        self.step = step
        self.step_millis = step // timedelta(milliseconds=1)

    def events(self, count: int) -> Iterator[Event]:
        for number in range(count):
            offset = number % ROUND
            kind: Kind = "person" if offset < PERSONS else "auction" if offset < PERSONS + AUCTIONS else "bid"
            at = BASE + number * self.step
            row = getattr(self, kind)(number, at)
            late = timedelta(milliseconds=int(self.dice.random() * DISORDER_MILLIS))
            yield Event(kind, row, at + late, number)

    # kinds

    def person(self, number: int, at: datetime) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": FIRST_ID + last_person(number),
            "name": f"{self._one(FIRST_NAMES)} {self._one(LAST_NAMES)}",
            "emailaddress": f"{self._text(7)}@{self._text(5)}.com",
            "creditcard": " ".join(f"{self._below(10_000):04d}" for _ in range(4)),
            "city": self._one(CITIES),
            "state": self._one(STATES),
            "datetime": at,
        }
        used = 8 + sum(len(row[name]) for name in ("name", "emailaddress", "creditcard", "city", "state"))
        return row | {"extra": self._extra(used, SIZES["person"])}

    def auction(self, number: int, at: datetime) -> dict[str, Any]:
        start = self._price()
        hot = self._below(HOT_SELLERS) > 0
        seller = last_person(number) // HOT_EVERY * HOT_EVERY if hot else self._some_person(number)
        row: dict[str, Any] = {
            "id": FIRST_ID + last_auction(number),
            "itemname": self._text(20),
            "description": self._text(100),
            "initialbid": start,
            "reserve": start + self._price(),
            "datetime": at,
            "expires": at + timedelta(milliseconds=self._length_millis()),
            "seller": FIRST_ID + seller,
            "category": FIRST_CATEGORY + self._below(CATEGORIES),
        }
        used = 8 + len(row["itemname"]) + len(row["description"]) + 8 * 6
        return row | {"extra": self._extra(used, SIZES["auction"])}

    def bid(self, number: int, at: datetime) -> dict[str, Any]:
        hot_auction = self._below(HOT_AUCTIONS) > 0
        auction = last_auction(number) // HOT_EVERY * HOT_EVERY if hot_auction else self._some_auction(number)
        hot_bidder = self._below(HOT_BIDDERS) > 0
        bidder = last_person(number) // HOT_EVERY * HOT_EVERY + 1 if hot_bidder else self._some_person(number)
        channel, url = self._channel()
        row: dict[str, Any] = {
            "auction": FIRST_ID + auction,
            "bidder": FIRST_ID + bidder,
            "price": self._price(),
            "channel": channel,
            "url": url,
            "datetime": at,
        }
        return row | {"extra": self._extra(8 * 4, SIZES["bid"])}

    # parts

    def _below(self, bound: int) -> int:
        return int(self.dice.random() * bound)

    def _one(self, values: tuple[str, ...]) -> str:
        return values[self._below(len(values))]

    def _some_person(self, number: int) -> int:
        """Recent ones, and some that are still to come."""
        known = last_person(number) + 1
        active = min(known, ACTIVE_PERSONS)
        return known - active + self._below(active + PERSON_LEAD)

    def _some_auction(self, number: int) -> int:
        """Recent ones, and some that are still to come."""
        newest = last_auction(number)
        oldest = max(newest - ACTIVE_AUCTIONS, 0)
        return oldest + self._below(newest - oldest + 1 + AUCTION_LEAD)

    def _length_millis(self) -> int:
        """An auction lasts until about as many newer ones have begun as are open at a time."""
        horizon = ACTIVE_AUCTIONS * ROUND // AUCTIONS * self.step_millis
        return 1 + self._below(max(2 * horizon, 1))

    def _price(self) -> int:
        price: int = round(10.0 ** (self.dice.random() * 6.0) * 100.0)
        return price

    def _channel(self) -> tuple[str, str]:
        if self._below(10) > 0:
            hot = self._below(len(HOT_CHANNELS))
            return HOT_CHANNELS[hot], self._url()
        number = self._below(CHANNELS)
        known = f"&channel_id={_reversed(number)}" if self._below(10) > 0 else ""
        return f"channel-{number}", self._url() + known

    def _url(self) -> str:
        folders = "/".join(self._text(5, "_") for _ in range(3))
        return f"https://www.nexmark.com/{folders}/item.htm?query=1"

    def _text(self, most: int, special: str = " ") -> str:
        """At least three characters, mostly letters."""
        length = 3 + self._below(most - 3)
        return "".join(special if self._below(13) == 0 else LETTERS[self._below(26)] for _ in range(length)).strip()

    def _extra(self, used: int, wanted: int) -> str:
        """Fills a row up to about its size."""
        if used > wanted:
            return ""
        rest = wanted - used
        spread = round(rest * 0.2)
        length = rest - spread + (self._below(2 * spread) if spread else 0)
        letters = self.dice.getrandbits(5 * length) if length else 0
        return "".join(_EXTRA[(letters >> (5 * at)) & 31] for at in range(length))


_EXTRA = LETTERS + "[]^_`\\"
"""The published extras hold these signs too."""


def _reversed(number: int) -> int:
    """The bits of a 32-bit number the other way round, without its sign."""
    turned = int(f"{number:032b}"[::-1], 2)
    return abs(turned - (1 << 32) if turned >> 31 else turned)
