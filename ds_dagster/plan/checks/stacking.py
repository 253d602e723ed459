"""The steps whose rows a step may read: one table of rules over the traits of plan nodes.

A rule has a kind of step, a need of the rows it reads, the reason, and the condition of a query that does not meet the
need. The page ``docs/reference/steps.md`` is made from the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.window import Window

Step = Literal[
    "a step",
    "a window",
    "a windowed aggregate",
    "a windowed aggregate that is refined",
    "a join of streams",
    "a temporal join",
    "a pattern match",
    "an OVER aggregate",
    "a sub-select as a value",
]
"""Kinds of steps with rules; ``a step`` is any step that keeps or looks up earlier rows."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something a step needs of the rows it reads.

    Attributes:
        text: the need in words, for messages and the documentation.
        lacking: why a node does not meet it, in words; empty if it does.
    """

    text: str
    lacking: Callable[[Node], str]


@dataclass(frozen=True, slots=True)
class StackingRule:
    """A need of one kind of step.

    Attributes:
        upper: the step that reads.
        need: the need.
        reason: why, in words.
        condition: raised if the need is not met.
        instead: the hint; empty for the condition's own.
    """

    upper: Step
    need: Need
    reason: str
    condition: str = "STATEFUL_CHAIN"
    instead: str = ""


def _where(holds: Callable[[Node], bool], words: str) -> Callable[[Node], str]:
    return lambda node: words if holds(node) else ""


def _is_session(window: Node) -> bool:
    return isinstance(window, Window) and window.function == "SESSION"


NOT_REFINED = Need(
    "no windowed aggregate with `'emit.mode' = 'updates'` below",
    _where(lambda node: node.is_refined, "a windowed aggregate that is refined"),
)
APPENDED = Need("rows that are appended", _where(lambda node: node.changelog != "append", "a changelog"))
FINAL = Need("rows that are never replaced", _where(lambda node: not node.is_final, "a changelog"))
TIMED = Need("rows with an event time", lambda node: node.untimed)
AT_ONCE = Need("rows that are emitted at once, without waiting for time", lambda node: node.late_step)
IN_ORDER = Need(
    "rows in the order of their source",
    _where(lambda node: not node.is_ordered, "a join, an aggregate or another stateful step"),
)
NO_OPEN_WINDOW = Need(
    "rows that are in no window yet, or in one that has closed",
    _where(lambda node: bool(node.open_windows), "a window"),
)
NO_OPEN_SESSION = Need(
    "no open `SESSION` window below", _where(lambda node: any(map(_is_session, node.open_windows)), "a session")
)

_OWN_CHANGELOG = (
    "write the lower one as a CHANGELOG of its own; reading all its changes needs its topic re-declared as a STREAM"
)
_OWN_STREAM = "write the lower one as a STREAM of its own and read that"
_NO_UPDATES = "leave out 'emit.mode': then the window emits its groups once, when it has closed"
_OF_A_MATCH = "it reads rows in the order of event time and of their position in the source"

RULES: tuple[StackingRule, ...] = (
    StackingRule("a step", NOT_REFINED, "the earlier result of a refined window is not known", instead=_OWN_CHANGELOG),
    StackingRule(
        "a window", NOT_REFINED, "the earlier result of a refined window is not known", instead=_OWN_CHANGELOG
    ),
    StackingRule("a window", FINAL, "a window cannot retract a row that is replaced", "WINDOW_OVER_CHANGELOG"),
    StackingRule("a window", TIMED, "event time decides which window a row is in", instead=_OWN_STREAM),
    StackingRule("a window", NO_OPEN_WINDOW, "a row has one pair of bounds", "WINDOW_OF_WINDOW"),
    StackingRule("a windowed aggregate", TIMED, "event time closes its windows", instead=_OWN_STREAM),
    StackingRule(
        "a windowed aggregate that is refined",
        AT_ONCE,
        "Spark cannot refine one step and wait in another",
        instead=_NO_UPDATES,
    ),
    *(
        rule
        for upper in ("a join of streams", "a temporal join")
        for rule in (
            StackingRule(
                upper, NO_OPEN_SESSION, "a session's bounds are known only when it has ended", "WINDOW_IN_JOIN"
            ),
            StackingRule(upper, TIMED, "event time decides which rows are joined", instead=_OWN_STREAM),
        )
    ),
    StackingRule("a pattern match", APPENDED, "a match cannot retract a row that is replaced", "MATCH_OVER_CHANGELOG"),
    StackingRule("a pattern match", IN_ORDER, _OF_A_MATCH, instead=_OWN_STREAM),
    StackingRule("an OVER aggregate", APPENDED, "a result is emitted once and never changed", "OVER_CHANGELOG"),
    StackingRule("an OVER aggregate", IN_ORDER, "it reads rows in the order of event time", instead=_OWN_STREAM),
    StackingRule(
        "a sub-select as a value",
        NO_OPEN_WINDOW,
        "the value changes, so rows are added and retracted, and a window cannot retract rows",
        instead="write the window in a sub-select of FROM, and compare its groups with the value",
    ),
)
"""All rules, in the order of evaluation: the first rule that is broken is reported."""


def check_over(upper: Step, below: Node, span: Span, **details: Any) -> None:
    """Apply all rules of a step.

    Args:
        upper: the step.
        below: the rows it reads.
        span: where the step is written.
        details: parameters of the messages of its own conditions.

    Raises:
        DsError: the condition of the first rule that is broken.
    """
    for rule in RULES:
        lower = rule.need.lacking(below) if rule.upper == upper else ""
        if lower:
            shown: dict[str, Any] = {"upper": upper, "lower": lower, "instead": rule.instead}
            raise error(rule.condition, span=span, **{**shown, **details})
