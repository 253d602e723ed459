"""Meaning and valid values of the ``@`` tags of a comment: one rule for ``ds check`` and Dagster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from ds_dagster.clock import duration_seconds
from ds_dagster.sql.partitions import PARTITIONS_TAG, partitions_in
from ds_dagster.sql.statements import Comment
from ds_dagster.sql.thresholds import CHECK_TAG, LIMITED, threshold_of

FRESHNESS_SHORTEST = 60
"""Smallest limit of ``@freshness``, in seconds."""
FRESHNESS_SOURCES = ("rows", "watermark", "heartbeat")
"""Figures that ``@freshness 10m of …`` may limit: the age of the last rows read (default), of the watermark, or of the
last heartbeat."""

RENAMED_FROM_TAG = "renamed_from"
_FRESHNESS = re.compile(r"(?P<limit>.*?)(?:\s+of\s+(?P<source>\S+))?\s*", re.IGNORECASE)
CRON_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Lowest and highest number of minute, hour, day, month, day of the week."""
_CRON_PART = re.compile(r"(?:\*|(?P<first>\d{1,2})(?:-(?P<last>\d{1,2}))?)(?:/(?P<step>\d{1,2}))?")
_OWNER = re.compile(r"team:\S+|[^@\s]+@[^@\s]+\.[^@\s]+")


@dataclass(frozen=True, slots=True)
class Freshness:
    """``@freshness``: the figure ``source`` (one of :data:`FRESHNESS_SOURCES`) may be at most ``seconds`` old."""

    seconds: int
    source: str


@dataclass(frozen=True, slots=True)
class Automation:
    """``@automation``: when Dagster materializes a relation automatically.

    Attributes:
        cron: five fields of a schedule; empty for ``on_change``.
        timezone: time zone of the schedule, a name such as ``Europe/Berlin``.
    """

    cron: str = ""
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class WrongTag:
    """A tag whose value is refused, and the condition with its parameters that gives the reason."""

    tag: str
    condition: str
    params: Mapping[str, str] = field(default_factory=dict)


def is_owner(text: str) -> bool:
    """Whether Dagster accepts the owner: ``team:name`` or an e-mail address."""
    return _OWNER.fullmatch(text) is not None


def freshness_of(text: str) -> Freshness | None:
    """The value of ``@freshness``; None if it is not valid."""
    parts = _FRESHNESS.fullmatch(text)
    limit, source = (parts["limit"], parts["source"]) if parts else (text, "")
    seconds, source = duration_seconds(limit), (source or "rows").lower()
    if seconds is None or seconds < FRESHNESS_SHORTEST or source not in FRESHNESS_SOURCES:
        return None
    return Freshness(seconds, source)


def max_lag_of(comment: Comment) -> str:
    """The value of ``@max_lag``; empty if the comment has no such tag."""
    return dict(comment.tags).get("max_lag", "")


def renamed_from_of(comment: Comment) -> str | None:
    """The value of ``@renamed_from`` as written, several values joined by a comma; None if there is no such tag."""
    values = [value for name, value in comment.tags if name == RENAMED_FROM_TAG]
    return ", ".join(values) if values else None


def automation_of(text: str) -> Automation | None:
    """The value of ``@automation``: ``on_change`` or ``on_cron 0 6 * * * [Europe/Berlin]``; None if it is not valid."""
    word, *schedule = text.split() or [""]
    if word.lower() == "on_change":
        return None if schedule else Automation()
    fields, zone = schedule[: len(CRON_FIELDS)], "".join(schedule[len(CRON_FIELDS) :]) or "UTC"
    if word.lower() != "on_cron" or not _is_cron(fields) or len(schedule) > len(CRON_FIELDS) + 1 or not _is_zone(zone):
        return None
    return Automation(" ".join(fields), zone)


def automations_of(comment: Comment) -> tuple[Automation, ...]:
    """The valid ``@automation`` tags of a comment."""
    values = (automation_of(value) for name, value in comment.tags if name == "automation")
    return tuple(value for value in values if value is not None)


def _is_cron(fields: list[str]) -> bool:
    if len(fields) != len(CRON_FIELDS):
        return False
    return all(
        all(_is_cron_part(part, *bounds) for part in text.split(","))
        for text, bounds in zip(fields, CRON_FIELDS, strict=True)
    )


def _is_cron_part(text: str, lowest: int, highest: int) -> bool:
    match = _CRON_PART.fullmatch(text)
    if match is None or (match["step"] and int(match["step"]) == 0):
        return False
    numbers = [int(number) for number in (match["first"], match["last"]) if number]
    return all(lowest <= number <= highest for number in numbers) and numbers == sorted(numbers)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # not a name, not a file, not a zone
        return False
    return True


def wrong_tags(comment: Comment) -> tuple[WrongTag, ...]:
    """The tags of a comment whose values are not valid."""
    tags = [
        WrongTag("owner", "OWNER_INVALID", {"owner": owner, "name": owner.removeprefix("@")})
        for owner in comment.owners
        if not is_owner(owner)
    ]
    if comment.freshness and freshness_of(comment.freshness) is None:
        tags.append(WrongTag("freshness", "FRESHNESS_INVALID", {"value": comment.freshness}))
    lag = max_lag_of(comment)
    if lag and duration_seconds(lag) is None:
        tags.append(WrongTag("max_lag", "MAX_LAG_INVALID", {"value": lag}))
    tags += (
        WrongTag("automation", "AUTOMATION_INVALID", {"value": value})
        for name, value in comment.tags
        if name == "automation" and automation_of(value) is None
    )
    tags += _wrong_checks(comment)
    partitions = [value for name, value in comment.tags if name == PARTITIONS_TAG]
    if partitions and partitions_in(comment) is None:
        tags.append(WrongTag(PARTITIONS_TAG, "PARTITIONS_INVALID", {"value": partitions[-1]}))
    return tuple(tags)


def _wrong_checks(comment: Comment) -> Iterator[WrongTag]:
    names: set[str] = set()
    for value in (value for name, value in comment.tags if name == CHECK_TAG):
        threshold = threshold_of(value)
        if threshold is None or threshold.name in names:
            yield WrongTag(CHECK_TAG, "CHECK_INVALID", {"value": value, "figures": ", ".join(LIMITED)})
        else:
            names.add(threshold.name)


def without_wrong_tags(comment: Comment) -> Comment:
    """The comment without its wrong tags."""
    wrong = {tag.tag for tag in wrong_tags(comment)}
    return replace(
        comment,
        owners=tuple(filter(is_owner, comment.owners)),
        freshness="" if "freshness" in wrong else comment.freshness,
        tags=tuple((name, value) for name, value in comment.tags if name not in wrong),
    )
