"""Freshness by data: the figures that ``@freshness`` can follow.

Dagster's own freshness state uses only the age of the last materialization, and Dagster dates an event when it is
reported: an asset turns stale only after its whole window. The check ``fresh`` fails at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ds_dagster.errors import error
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.runtime.status import JobStatus
from ds_dagster.sql.annotations import Freshness, freshness_of


@dataclass(frozen=True, slots=True)
class Followed:
    """A figure that freshness can follow.

    Attributes:
        of: job → its figure, seconds since the epoch, None if it is not known.
        over: combines the figures of a relation's jobs.
        words: text for people, with ``{age}`` in seconds.
    """

    of: Callable[[JobStatus], float | None]
    over: Callable[[Iterable[float]], float]
    words: str


FOLLOWED: Mapping[str, Followed] = MappingProxyType(
    {
        "rows": Followed(lambda status: status.progressed, max, "the last rows came {age:.0f} s ago"),
        "watermark": Followed(lambda status: status.watermark, min, "event time is {age:.0f} s behind"),
        "heartbeat": Followed(lambda status: status.beat, min, "it was seen to run {age:.0f} s ago"),
    }
)
"""``@freshness … of`` → the figure."""


def freshness(props: RelationProps) -> Freshness | None:
    """``@freshness`` of a relation, None when there is none.

    Raises:
        UserError: FRESHNESS_INVALID.
    """
    text = props.relation.comment.freshness if props.relation else ""
    rule = freshness_of(text) if text else None
    if text and rule is None:
        raise error("FRESHNESS_INVALID", span=props.relation.span if props.relation else None, value=text)
    return rule


def moment(statuses: Sequence[JobStatus], source: str) -> float | None:
    """How new the data of a relation is by one figure: seconds since the epoch, None before there is data."""
    followed = FOLLOWED[source]
    moments = [value for status in statuses if (value := followed.of(status)) is not None]
    return followed.over(moments) if moments else None
