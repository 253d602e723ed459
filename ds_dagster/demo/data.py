"""Records that the demo feeds: users and clicks, page views and registrations, the same in every run.

Phases follow one another in time, so that it is known for each click which version of its user was valid:
users change and are deleted between the clicks, one user never exists, another is added only after its first clicks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SEED = 101
USERS = 20
URLS = ("./home", "./products", "./cart", "./about", "./help")
DEVICES = ("mobile", "desktop", "tablet")
REGIONS = 9
STRANGER = "User_unknown"
"""Id of a user who clicks, but never exists."""
LATE = "User_late"
"""Id of a user who is added after half of the phases."""
GENDERS = ("OTHER", "FEMALE", "MALE")
INTERESTS = ("News", "Movies", "Game", "Sport", "Travel")
FIRST_CLICK_MILLIS = 1_497_014_222_380
FIRST_REGISTRATION_MILLIS = 1_665_780_360_439
PHASES = 4
PAGES = 10

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Out:
    """One record to feed. ``value`` None deletes the key.

    Attributes:
        entity: clicks, users, pageviews or ds_users.
        key: columns of the record's key, or None.
        value: columns of the value.
    """

    entity: str
    key: Mapping[str, Any] | None
    value: Row | None

    @property
    def key_text(self) -> str | None:
        """The key as JSON."""
        return None if self.key is None else compact(self.key)

    @property
    def value_bytes(self) -> bytes:
        """The value as JSON; empty for a delete."""
        return b"" if self.value is None else compact(self.value).encode()


@dataclass(frozen=True, slots=True)
class Phase:
    """Changes of users and registrations, then the clicks and page views while these are valid."""

    changes: tuple[Out, ...]
    events: tuple[Out, ...]


def compact(value: object) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def phases(clicks: int) -> Iterator[Phase]:
    """All records to feed, in phases.

    Args:
        clicks: number of clicks in all phases; there is one page view for ten clicks, at least one in each phase.
    """
    chance = random.Random(SEED)
    counter = iter(range(clicks + 1))
    for number in range(PHASES):
        share = clicks // PHASES + (clicks % PHASES if number == PHASES - 1 else 0)
        events = [click(chance, next(counter)) for _ in range(share)]
        events += [_page_view(chance, number, position) for position in range(max(share // 10, 1))]
        yield Phase(tuple(_changes(chance, number)), tuple(events))


def click(chance: random.Random, position: int) -> Out:
    """A random click; ``position`` is its number."""
    userid = chance.choice([*(f"User_{n}" for n in range(1, USERS + 1)), STRANGER, LATE])
    value = {
        "event_time": FIRST_CLICK_MILLIS + 5 * position,
        "device_id": chance.choice(DEVICES),
        "url": chance.choice(URLS),
        "userid": userid,
        "ip": f"12.12.12.{chance.randrange(1, 255)}",
    }
    return Out("clicks", None, value)


def user(chance: random.Random, userid: str, version: int) -> Out:
    """A version of a user; its personal data has a mark, by which the demo checks that no topic contains it."""
    value = {
        "registertime": FIRST_REGISTRATION_MILLIS + 1000 * version,
        "name": f"PII-{userid}",
        "email": f"{userid.lower()}@pii.example",
        "userid": userid,
        "regionid": f"Region_{chance.randrange(1, REGIONS + 1)}",
        "gender": chance.choice(GENDERS),
        "interests": sorted(chance.sample(INTERESTS, 2)),
        "contactinfo": {"phone": "555-PII", "city": "PII-City", "state": "CA", "zipcode": f"9{version:04d}"},
    }
    return Out("users", {"userid": userid}, value)


def _changes(chance: random.Random, number: int) -> Iterator[Out]:
    """Changes of users for a phase. First all users are added; later a third of the users are written again (also
    users deleted before), two are deleted and one registers; halfway :data:`LATE` is added."""
    names = [f"User_{n}" for n in range(1, USERS + 1)]
    if number == 0:
        yield from (user(chance, name, 0) for name in names)
        yield from (_registration(chance, name) for name in names[::2])
        return
    for name in names[number::3]:
        yield user(chance, name, number)
    yield Out("users", {"userid": f"User_{number}"}, None)
    yield Out("users", {"userid": f"User_{USERS - number}"}, None)
    if number == PHASES // 2:
        yield user(chance, LATE, number)
    yield _registration(chance, names[2 * number + 1])


def _registration(chance: random.Random, userid: str) -> Out:
    value = dict(user(chance, userid, 0).value or {})
    names = ("registertime", "userid", "regionid", "gender", "interests", "contactinfo")
    return Out("ds_users", None, {name: value[name] for name in names})


def _page_view(chance: random.Random, number: int, position: int) -> Out:
    userid = chance.choice([*(f"User_{n}" for n in range(1, USERS + 1)), STRANGER])
    viewtime = 1_677_196_372_920 + 1000 * (number * 100_000 + position)
    value = {"viewtime": viewtime, "userid": userid, "pageid": f"Page_{chance.randrange(1, PAGES + 1)}"}
    return Out("pageviews", {"userid": userid}, value)
